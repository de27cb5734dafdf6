"""Launches whose sizes come from the command line, through parser classes, getopt and loops over argv."""

from __future__ import annotations

import pytest

from hipsynth.profiling.preview.host import host_launches
from hipsynth.source.arguments import run_text, stated_arguments

KERNEL = "__global__ void add(int n) {}\n"
PARSER = """
namespace cli { class Parser { std::vector<Base*> all; public:
  Parser(int argc, char** argv) { for (int i = 1; i < argc; ++i) words.push_back(argv[i]); }
  template <typename T> void optional(const std::string& name, const std::string& longer, T value,
    const std::string& help = "")
  { auto* made = new Argument<T>(name, longer); made->value = value; all.push_back(made); }
  template <typename T> T get(const std::string& name) const
  { for (const auto& one : all) if (one->name == name) return one->value; throw std::runtime_error("no"); } }; }
void configure(cli::Parser& parser) { parser.optional<unsigned int>("n", "size", 1024, "how many"); }
int main(int argc, char** argv) { cli::Parser parser(argc, argv); configure(parser);
  const unsigned int n = parser.get<unsigned int>("n"); add<<<n / 256, 256>>>(n); }
"""
POINTERS = """
struct Option { std::string shorter, longer; void* value; };
class Args { public: int add_option(Option* one) { list[count++] = *one; return 0; }
  int parse(int argc, char** argv) { return match(argv, argc); } };
class Program { unsigned int n; public: Args* args; Program() { n = 1024; args = new Args(); }
  int start(); int run(); };
int Program::start() { Option* one = new Option; one->shorter = "n"; one->longer = "size"; one->value = &n;
  args->add_option(one); delete one; return 0; }
int Program::run() { add<<<n / 256, 256>>>(n); return 0; }
int main(int argc, char** argv) { Program program; if (program.start() != 0) return 1;
  if (program.args->parse(argc, argv) != 0) return 1; program.run(); }
"""
GETOPT = """
void read(int argc, char** argv, int& n) { n = 1 << 10; int c;
  while ((c = getopt(argc, argv, "qn:")) != -1) switch (c) { case 'q': quiet = true; break;
    case 'n': n = std::atoi(optarg); break; default: std::exit(1); } }
int main(int argc, char** argv) { int n; read(argc, argv, n); add<<<n / 256, 256>>>(n); }
"""
LOOP = """
int main(int argc, char** argv) { int n = 1024;
  for (int i = 1; i < argc; ++i) { if (!strcmp(argv[i], "-q")) continue;
    if (std::string(argv[i]) == "-n" && i + 1 < argc) n = atoi(argv[++i]); }
  add<<<n / 256, 256>>>(n); }
"""


@pytest.mark.parametrize("text", [PARSER, POINTERS, GETOPT, LOOP])
@pytest.mark.parametrize(("given", "size"), [((), 1024), (("-q", "-n", "4096"), 4096)])
def test_sizes_of_the_command_line(text: str, given: tuple[str, ...], size: int) -> None:
    launches, unknown = host_launches(KERNEL + text, given)
    assert not unknown
    assert [(launch.grid[0], launch.arguments) for launch in launches] == [(size // 256, (size,))]


def test_an_option_by_its_long_name() -> None:
    assert host_launches(KERNEL + PARSER, ["--size=512"])[0][0].grid[0] == 2


def test_a_word_that_is_no_number_is_not_known() -> None:
    launches, unknown = host_launches(KERNEL + PARSER, ["-n", "many"])
    assert (launches, unknown) == ([], ["add"])


def test_texts_are_compared() -> None:
    text = 'int main() { const std::string way = "up"; add<<<way.size(), 64>>>(way.compare("up") == 0); }'
    launch = host_launches(KERNEL + text)[0][0]
    assert (launch.grid[0], launch.arguments) == (2, (1,))


def test_a_reference_is_another_name() -> None:
    text = "void set(int& a, int* b, int c) { a = 4; *b = 5; c = 6; }\n"
    text += "int main() { int x = 1, y = 2, z = 3; set(x, &y, z); add<<<x, 64 * y>>>(z); }"
    launch = host_launches(KERNEL + text)[0][0]
    assert (launch.grid[0], launch.block[0], launch.arguments) == (4, 320, (3,))


def test_a_missing_argument_has_its_default() -> None:
    text = "void run(int n, int block = 128) { add<<<n, block>>>(n); } int main() { run(3); run(4, 64); }"
    assert [one.block[0] for one in host_launches(KERNEL + text)[0]] == [128, 64]


def test_arguments_that_a_text_states() -> None:
    assert stated_arguments(run_text("int main() {}", "-n '4 5'")) == ["-n", "4 5"]
    assert stated_arguments("int main() {}") == stated_arguments("// arguments: 'open") == []
