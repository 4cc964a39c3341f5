#include "apps/program/program.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "sextant/base/check.h"
#include "sextant/base/console.h"
#include "sextant/base/env.h"
#include "sextant/base/fs.h"
#include "sextant/base/log.h"
#include "sextant/base/signals.h"
#include "sextant/base/version.h"
#include "sextant/recipe/key_table.h"

namespace sx {
namespace {

bool colored(ColorMode color) {
  if (color == ColorMode::kAuto) return env::want_color();
  return color == ColorMode::kAlways;
}

int print_faults(const std::vector<Diagnostic>& faults, ColorMode color) {
  for (const Diagnostic& fault : faults) print_fault(fault, "error", color);
  return static_cast<int>(faults.front().exit);
}

int print_version(bool json, std::span<const ProgramPart> parts) {
  const Version& build = version();
  if (json) {
    nlohmann::ordered_json out{{"version", build.version},
                               {"git_commit", build.git_commit},
                               {"build_type", build.build_type},
                               {"compiler", build.compiler}};
    for (const ProgramPart& part : parts) out[part.name] = part.version;
    print(out.dump() + "\n");
    return 0;
  }
  print(fmt::format("sextant {}\ngit commit  {}\nbuild type  {}\ncompiler    {}\n", build.version,
                    build.git_commit, build.build_type, build.compiler));
  for (const ProgramPart& part : parts) print(fmt::format("{:<12}{}\n", part.name, part.version));
  return 0;
}

Diagnostic defect(int number, const std::string& what) {
  return {.exit = ExitCode::kContract,
          .number = number,
          .what = what,
          .rule = "a defect of the program, not of the input",
          .next = "please report it with the crash file"};
}

/// crash-<rank>.json in the working folder: what a report needs.
int report_crash(const Diagnostic& fault, const char* kind, const Invocation& call) {
  print_fault(fault, "error", call.color);
  const auto launcher = env::detect_launcher();
  const std::string file =
      fmt::format("crash-{:05}.json", launcher.ok() ? launcher->global_rank : 0);
  const nlohmann::ordered_json crash{
      {"code", fault.code()},          {"kind", kind},
      {"message", fault.what},         {"command", call.command},
      {"version", version().version},  {"git_commit", version().git_commit},
      {"compiler", version().compiler}};
  const std::string text =
      crash.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (write_file_atomic(file, text).ok()) console::write_line("  file   " + file);
  return static_cast<int>(fault.exit);
}

void warn_unknown_variables(ColorMode color) {
  for (const std::string& name : env::unknown_sextant_variables()) {
    print_fault({.number = 28,
                 .what = fmt::format("variable {} is not read", name),
                 .where = "environment",
                 .rule = "settings are recipe keys and flags, never variables",
                 .next = "sextant --help-recipe"},
                "warn", color);
  }
}

/// Reads the recipe of the call; prints and returns an exit code when the call ends here.
std::optional<int> take_recipe(Invocation& call, std::vector<Diagnostic> faults) {
  if (call.sub->recipe == SubVerb::RecipeUse::kOptional) {
    RecipeSources sources{.preset = call.preset, .path = call.recipe_path, .sets = call.sets};
    if (!call.print_config) sources.required_groups = call.sub->groups;
    sources.only_evaluates = call.has("eval-only");
    const std::string used = call.out + "/recipe.resolved.toml";
    std::error_code code;
    if ((call.has("resume") || call.has("eval-only")) && call.recipe_path.empty() &&
        call.preset.empty() && fs::exists(used, code)) {
      sources.path = used;  // --resume or --eval-only with --out RUN is enough
    }
    LoadedRecipe loaded = load_recipe(sources);
    for (Diagnostic& fault : loaded.faults) faults.push_back(std::move(fault));
    if (!call.quiet) {
      for (const std::string& note : loaded.notes) console::write_line("note  " + note);
    }
    call.recipe = std::move(loaded.recipe);
  }
  if (!faults.empty()) return print_faults(faults, call.color);
  if (call.print_config) {
    print(call.json ? call.recipe.to_json().dump(2) + "\n" : call.recipe.to_toml());
    return 0;
  }
  if (call.validate) {
    if (!call.quiet) console::write_line("no faults");
    return 0;
  }
  return std::nullopt;
}

/// Verbs that look at stop requests and save what they have, or say what was not done.
bool heeds_stop(const Invocation& call) {
  const std::string& verb = call.verb->name;
  return verb == "train" || verb == "tokenize" || (verb == "crawl" && call.sub->name == "run");
}

int run_verb(const Invocation& call, std::initializer_list<Command> commands) {
  const Command* command = nullptr;
  for (const Command& one : commands) {
    if (call.verb->name == one.verb) command = &one;
  }
  if (command == nullptr) {
    throw ConfigError(Diagnostic{.number = 5,
                                 .what = fmt::format("this build has no verb {}", call.verb->name),
                                 .rule = "its part was not built",
                                 .next = "sextant doctor"});
  }
  warn_unknown_variables(call.color);
  const auto status = log::configure({.level = call.recipe->log.level, .console = !call.quiet});
  if (!status.ok()) throw IoError(to_diagnostic(status.error()));
  if (!heeds_stop(call)) signals::exit_at_once();
  return command->run(call);
}

/// True when nobody reads standard output any more: the reader has what it wanted.
bool reader_left() {
  pollfd out{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/// Nothing printed may be lost silently: the code of the call, or 3 when standard output took not
/// all.
int finish_output(int code, ColorMode color) {
  const bool lost = std::fflush(stdout) != 0;
  const std::string cause = lost ? std::strerror(errno) : "a part was refused";
  if (code != 0 || (!lost && std::ferror(stdout) == 0) || reader_left()) return code;
  const Error error{ErrorKind::kIo, "cannot write: " + cause, "standard output"};
  return print_faults({to_diagnostic(error, "df -h .")}, color);
}

int run_parsed(Program program, ParsedCommandLine parsed, char** argv,
               std::initializer_list<Command> commands, std::span<const ProgramPart> parts) {
  Invocation& call = parsed.invocation;
  if (parsed.faults.empty() || call.verb == nullptr) {
    if (call.version) return print_version(call.json, parts);
    if (call.verb == nullptr && parsed.faults.empty()) {
      if (call.help_recipe) {
        print(recipe_help({}));
        return 0;
      }
      const std::string help = help_text(program, nullptr, nullptr);
      if (call.help) {
        print(help);
        return 0;
      }
      console::write_line(help);
      return static_cast<int>(ExitCode::kUser);
    }
  }
  if (call.verb == nullptr || call.sub == nullptr) {
    if (!parsed.faults.empty()) return print_faults(parsed.faults, call.color);
    print(help_text(program, call.verb, nullptr));
    return 0;
  }
  if (call.help && parsed.faults.empty()) {
    const bool whole_verb = !call.sub->name.empty() && !call.sub_given;
    print(help_text(program, call.verb, whole_verb ? nullptr : call.sub));
    return 0;
  }
  if (call.help_recipe && parsed.faults.empty()) {
    if (!call.sub->groups.empty()) print(recipe_help(call.sub->groups));
    return 0;
  }
  const bool elsewhere = call.verb->program != program;
  if (elsewhere && parsed.faults.empty() && !call.print_config && !call.validate) {
    return exec_sibling(call.verb->program == Program::kSextant ? "sextant" : "sextant-train", argv,
                        call.color);
  }
  if (const auto code = take_recipe(call, std::move(parsed.faults))) return *code;
  return run_verb(call, commands);
}

}  // namespace

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_fault(const Diagnostic& fault, const char* severity, ColorMode color) {
  std::string text = fault.to_string(severity);
  if (colored(color)) {
    const std::size_t close = text.find(']');
    const char* paint = std::string_view(severity) == "error" ? "\x1b[1;31m" : "\x1b[1;33m";
    text = paint + text.substr(0, close + 1) + "\x1b[0m" + text.substr(close + 1);
  }
  console::write_line(text);
}

std::string find_sibling(const std::string& name) {
  std::error_code code;
  const fs::path folder = fs::read_symlink("/proc/self/exe", code).parent_path();
  for (const fs::path& candidate : {folder / name, folder / ".." / "libexec" / "sextant" / name}) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  return "";
}

int exec_sibling(const std::string& name, char** argv, ColorMode color) {
  const std::string program = find_sibling(name);
  if (!program.empty()) execv(program.c_str(), argv);
  std::error_code code;
  const fs::path folder = fs::read_symlink("/proc/self/exe", code).parent_path();
  print_fault({.number = 5,
               .what = fmt::format("there is no program {} beside this one", name),
               .where = folder.string(),
               .rule = name == "sextant-train"
                           ? "this build has no LibTorch part; configure with preset release"
                           : "both programs lie in one folder",
               .next = "./sx build release"},
              "error", color);
  return static_cast<int>(ExitCode::kUser);
}

int run_main(Program program, int argc, char** argv, std::initializer_list<Command> commands,
             std::span<const ProgramPart> parts) {
  const std::vector<std::string> words(argv, argv + argc);
  ParsedCommandLine parsed = parse_command_line(program, words);
  const Invocation asked = parsed.invocation;
  int code = 0;
  signals::install();
  try {
    code = run_parsed(program, std::move(parsed), argv, commands, parts);
  } catch (const FatalError& error) {
    code = print_faults(error.faults(), asked.color);
  } catch (const ContractError& error) {
    code = report_crash(defect(1, error.what()), "contract", asked);
  } catch (const std::bad_alloc&) {
    code = report_crash({.exit = ExitCode::kMemory,
                         .number = 2,
                         .what = "out of host memory",
                         .rule = "an allocation was refused",
                         .next = "smaller training.micro_batch_size or run.threads"},
                        "memory", asked);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return finish_output(0, asked.color);
    code = report_crash(defect(2, error.what()), "exception", asked);
  }
  code = finish_output(code, asked.color);
  log::flush();
  return code;
}

}  // namespace sx
