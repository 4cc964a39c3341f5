#!/usr/bin/env bash
# Makes .deps/peers: a Python with torch, transformers, safetensors and megatron-core, which the tests named e2e.hf and
# e2e.megatron compare with. Optional: without it these tests are not registered. About 3 GB.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -m venv .deps/peers
.deps/peers/bin/pip install --quiet torch transformers safetensors megatron-core
.deps/peers/bin/python -c 'import transformers; print("transformers", transformers.__version__)'
