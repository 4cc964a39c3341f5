#include "sextant/mesh/purpose.h"

namespace sx {

const char* to_string(Purpose purpose) {
  switch (purpose) {
    case Purpose::kGather: return "gather";
    case Purpose::kReduce: return "reduce";
    case Purpose::kReplicate: return "replicate";
    case Purpose::kP2pForward: return "p2p_forward";
    case Purpose::kP2pBackward: return "p2p_backward";
    case Purpose::kControl: return "control";
  }
  return "?";
}

}  // namespace sx
