"""Which names are renamed and which must be kept."""

from __future__ import annotations

import re

import pytest

from hipsynth.source.parse import ParseConfig, ParsedUnit, parse_source
from hipsynth.synth.frontend.passes.rename import plan_renaming, rename_unit

HEAD = "#include <hip/hip_runtime.h>\n#include <stdio.h>\n"


def _unit(text: str, config: ParseConfig) -> ParsedUnit:
    unit, diagnostics = parse_source((HEAD + text).encode(), config)
    assert unit is not None, diagnostics
    return unit


def _renamed(text: str, config: ParseConfig, seed: int = 1) -> str:
    result, _, diagnostics = rename_unit(_unit(text, config), config, seed)
    assert result is not None, diagnostics
    return result.decode()


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text.split(HEAD)[-1]))


def test_a_branch_for_another_device_may_call_the_library(config: ParseConfig) -> None:
    """A local variable has the name of a library function that a branch calls which is not compiled here."""
    branch = "#ifdef __gfx942__\n  v_ = max(v_, 0.0f);\n  own(v_);\n#endif\n"
    head = "__device__ void own(float) {}\n__global__ void k_(float* p_) { float v_ = p_[0];\n"
    tail = "p_[0] = v_; }\nint main() { float max = 0, own_ = 1; return max > own_; }\n"
    text = _renamed(head + branch + tail, config)
    assert "= max(" in text and "float max = 0" in text
    assert " own(" not in text and "own_" not in text, "the program's own function is renamed there, too"


CHANGED = [
    ("variable and parameter", "__global__ void kern_(int* out_) { int tmp_ = 3; out_[0] = tmp_; }", "kern_ out_ tmp_"),
    (
        "launch",
        "__global__ void kern_() {}\nint main() { kern_<<<1, 1>>>(); hipLaunchKernelGGL(kern_, 1, 1, 0, 0); }",
        "kern_",
    ),
    ("types", "struct S_ { int f_; S_() : f_(1) {} ~S_() {} }; typedef S_ T_; using U_ = T_; U_ v_;", "S_ f_ T_ U_ v_"),
    ("enum", "enum E_ { A_, B_ = 2 }; enum class F_ { C_ }; int g_ = B_ + int(F_::C_);", "E_ A_ B_ F_ C_ g_"),
    (
        "template",
        "template <typename T_, int N_, class... P_> T_ f_(P_... p_) { return N_ + sizeof...(p_); }",
        "T_ N_ P_ f_ p_",
    ),
    ("dependent member", "struct S_ { int mem_; }; template <class T_> int f_(T_ t_) { return t_.mem_; }", "mem_ S_"),
    (
        "namespace",
        "namespace n_ { namespace m_ { int v_; } } using namespace n_::m_; namespace a_ = n_; int w_ = a_::m_::v_;",
        "n_ m_ a_ v_",
    ),
    (
        "macro",
        "#define M_(p_) ((p_) + loc_)\n#define K_ 3\nint f_() { int loc_ = K_; return M_(loc_); }",
        "M_ p_ K_ loc_ f_",
    ),
    ("macro condition", "#define K_ 1\n#if defined(K_) && K_ > 0\nint v_;\n#endif\n#undef K_", "K_ v_"),
    (
        "unused macro",
        "struct S_ { int mem_; };\n#define M_(s_) (s_).mem_ + glob_\nint glob_; S_ v_;",
        "mem_ glob_ M_ s_",
    ),
    ("labels", "int f_(int n_) { goto end_; again_: --n_; end_: if (n_ > 0) goto again_; return n_; }", "end_ again_"),
    (
        "lambda",
        "int f_() { int c_ = 1; auto l_ = [&c_, i_ = c_ + 1](int q_) { return q_ + i_ + c_; }; return l_(2); }",
        "c_ l_ i_ q_",
    ),
    ("binding", "struct S_ { int a_, b_; }; int f_() { auto [x_, y_] = S_{1, 2}; return x_ + y_; }", "x_ y_ a_ b_"),
    ("designated", "struct S_ { int a_, b_; }; S_ v_ = {.a_ = 1, .b_ = 2};", "a_ b_"),
    ("offsetof", "struct S_ { int a_, b_; }; unsigned long v_ = __builtin_offsetof(S_, b_);", "b_"),
    (
        "member pointer",
        "struct S_ { int a_; int f_(); }; auto p_ = &S_::a_; auto q_ = &S_::f_; int S_::f_() { return this->*p_; }",
        "a_ f_ p_",
    ),
    ("shared array", "__global__ void k_(float* o_) { extern __shared__ float t_[]; o_[0] = t_[0]; }", "t_ k_"),
    (
        "check macro",
        "#define C_(e_) if ((e_) != hipSuccess) puts(#e_)\nint main() { int* p_; C_(hipMalloc(&p_, 4)); }",
        "C_ e_ p_",
    ),
    (
        "passed macro",
        "#define EACH_(x_) x_(one_)\n#define ENTRY_(m_) m_,\n#define SHOW_(m_) #m_\nenum E_ { EACH_(ENTRY_) };",
        "EACH_ ENTRY_ one_ x_",
    ),
    (
        "device branch",
        "__device__ int d_;\n__global__ void k_(int* o_) {\n#ifdef __HIP_DEVICE_COMPILE__\n int z_ = d_; "
        "o_[0] = z_;\n#endif\n}",
        "d_ z_ o_",
    ),
    (
        "pragma",
        "__global__ void k_(int* o_) { constexpr int u_ = 4;\n#pragma unroll u_\n for (int i_ = 0; i_ < 8; "
        "++i_) o_[i_] = i_; }",
        "u_ i_",
    ),
    (
        "friend",
        "class A_ { int s_; friend class B_; friend int peek_(A_& a_) { return a_.s_; } }; class B_ { int "
        "g_(A_ a_) { return a_.s_; } };",
        "A_ B_ s_ peek_",
    ),
]


@pytest.mark.parametrize(("text", "names"), [c[1:] for c in CHANGED], ids=[c[0] for c in CHANGED])
def test_every_declared_name_changes(config: ParseConfig, text: str, names: str) -> None:
    assert set(names.split()) <= _words(text)
    assert not set(names.split()) & _words(_renamed(text, config))


KEPT = [
    ("main", "int main(int c_, char** v_) { return c_; }", "main"),
    (
        "api",
        "__global__ void k_(float* o_) { o_[threadIdx.x] = __fmaf_rn(sqrtf(2.f), 1.f, warpSize); }",
        "threadIdx x sqrtf __fmaf_rn warpSize",
    ),
    ("system member", "__global__ void k_(float4* p_) { int x = 1; p_[x].x += p_[0].w; }", "w"),
    ("elsewhere", 'extern "C" double j0x_(double); double f_() { return j0x_(1.0); }', "j0x_"),
    (
        "looked up",
        '#define X_ 1\nextern "C" __global__ void byname_() {}\nvoid f_(hipModule_t m_) { hipFunction_t g_; '
        '(void)hipModuleGetFunction(&g_, m_, "byname_"); }',
        "byname_",
    ),
    (
        "mangled",
        "struct S_ {}; __global__ void byname_(S_*) {}\nvoid f_(hipModule_t m_) { hipFunction_t g_; "
        '(void)hipModuleGetFunction(&g_, m_, "_Z7byname_P2S_"); }',
        "byname_ S_",
    ),
    ("shown", '#define SHOW_(e_) printf("%s %d", #e_, e_)\nint main() { int val_ = 3; SHOW_(val_ + 1); }', "val_"),
    (
        "shown by a passed macro",
        "#define EACH_(x_) INNER_(x_, lone_) x_(one_) x_(two_)\n#define INNER_(y_, n_) y_(n_)\n#define ENTRY_(m_) m_,\n"
        "#define TEXT_(m_) #m_,\nenum E_ { EACH_(ENTRY_) };\nconst char* texts_[] = {EACH_(TEXT_)};",
        "one_ two_ lone_",
    ),
    ("pasted", "#define P_(a_) int pre_##a_ = 1\nP_(post_); int w_ = pre_post_;", "post_ pre_ pre_post_"),
    ("own name printed", "const char* who_() { return __func__; }", "who_"),
    (
        "template arguments printed",
        "enum class E_ { one_ }; static int v_; void h_() {}\n"
        "template <auto V_> void f_() { puts(__PRETTY_FUNCTION__); }\n"
        "void g_() { f_<E_::one_>(); f_<&v_>(); f_<h_>(); }",
        "E_ one_ v_ h_",
    ),
    ("own name by a builtin", "const char* who_() { return __builtin_FUNCTION(); }", "who_"),
    (
        "the caller's name",
        "void log_(const char* who_ = __builtin_FUNCTION()); void work_() { log_(); } void rest_() { work_(); }",
        "work_ rest_ log_",
    ),
    (
        "literal suffix",
        'constexpr unsigned long long operator""_km(unsigned long long v_) { return v_; } auto d_ = 5_km;',
        "_km",
    ),
    ("header setting", "#define NDEBUG 1\n#include <assert.h>\nint f_(int n_) { assert(n_); return n_; }", "NDEBUG"),
    ("attribute", "struct __attribute__((aligned(8))) S_ { int aligned; };", "__attribute__"),
    (
        "library operator",
        "#include <functional>\nstruct K_ { int i_; }; template <> struct std::hash<K_> { unsigned long "
        "operator()(const K_& k_) const { return k_.i_; } };",
        "std hash operator",
    ),
    (
        "range protocol",
        "struct R_ { int d_[3]; int* begin() { return d_; } int* end() { return d_ + 3; } }; int f_(R_ r_) { "
        "int s_ = 0; for (int v_ : r_) s_ += v_; return s_; }",
        "begin end",
    ),
    (
        "system base",
        "#include <exception>\nstruct E_ : std::exception { const char* what() const noexcept override { "
        'return ""; } };',
        "what",
    ),
    (
        "clause",
        "double f_(int n_) { double reduction = 0; int num_threads = 4, dynamic = 2;\n#pragma omp parallel for "
        "reduction(+ : reduction) num_threads(num_threads) schedule(dynamic, dynamic)\n "
        "for (int i_ = 0; i_ < n_; ++i_) reduction += i_;\n return reduction; }",
        "reduction num_threads dynamic",
    ),
    ("pragma's setting", "#define OFF 0\n#pragma STDC FP_CONTRACT OFF\nint g_ = OFF;", "OFF"),
    ("device assertion", "#include <assert.h>\n__device__ void f_(int n_) { assert(n_ > 0); }", "n_ f_"),
]


@pytest.mark.parametrize(("text", "names"), [c[1:] for c in KEPT], ids=[c[0] for c in KEPT])
def test_names_used_outside_the_file_are_kept(config: ParseConfig, text: str, names: str) -> None:
    after = _renamed(text, config)
    assert set(names.split()) <= _words(after)


def test_scopes_may_get_their_own_names(config: ParseConfig) -> None:
    unit = _unit("int f_(int n_) { return n_; }\nint g_(int n_) { { int n_ = 1; f_(n_); } return n_; }", config)
    numbers = {len(plan_renaming(unit, seed).names["n_"]) for seed in range(12)}
    assert numbers > {1} and max(numbers) <= 3
    assert all(len(plan_renaming(unit, seed).names["f_"]) == 1 for seed in range(12))


def test_same_seed_same_bytes_other_seed_other_names(config: ParseConfig) -> None:
    text = "__global__ void k_(int* p_) { p_[threadIdx.x] = 1; }"
    assert _renamed(text, config, 5) == _renamed(text, config, 5)
    assert len({_renamed(text, config, seed) for seed in range(6)}) == 6


def test_new_names_collide_with_nothing(config: ParseConfig) -> None:
    unit = _unit("int f_(int n_) { return n_; }", config)
    for seed in range(40):
        new = {n for names in plan_renaming(unit, seed).names.values() for n in names}
        assert len(new) == 2
        assert not new & ({"int", "return"} | unit.macro_words)


def test_text_that_is_not_ascii_keeps_its_bytes(config: ParseConfig) -> None:
    after = _renamed('int größe_ = 1; /* übergroß */ const char* s_ = "naïve"; int w_ = größe_;', config)
    assert "/* übergroß */" in after and '"naïve"' in after
    assert "größe_" not in after


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("const char* who_() { return __func__; }", "who_", "printed"),
        ("#define P_(a_) int pre_##a_ = 1\nP_(post_); int pre_;", "pre_", "macro_text"),
        ('extern "C" double j0x_(double); double f_() { return j0x_(1.0); }', "j0x_", "defined_elsewhere"),
        (
            "#include <algorithm>\ntemplate <class T_> void fill(T_* p_, int n_) {}\n"
            "using namespace std; template <class T_> void g_(T_* q_) { fill(q_, 1); fill(q_, q_, 0); }",
            "fill",
            "library_overload",
        ),
    ],
)
def test_names_that_stay_have_a_reason(config: ParseConfig, text: str, name: str, reason: str) -> None:
    _, renaming, diagnostics = rename_unit(_unit(text, config), config, 1)
    assert renaming is not None, diagnostics
    assert renaming.kept.get(name) == reason


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('extern "C" int one_() { return 1; }\nextern "C" int two_() __attribute__((alias("one_")));', "one_"),
        ('int three_() { return 3; }\n[[gnu::alias("_Z6three_v")]] int four_();', "three_"),
        ('extern "C" int one_() { return 1; }\nasm(".globl other\\nother:\\n jmp one_\\n");', "one_"),
        ('int one_; void f_() { int off = 0; asm volatile("nop # one_, off" : "=r"(off) :: "memory"); }', "one_"),
    ],
)
def test_symbols_in_strings_stay(config: ParseConfig, text: str, name: str) -> None:
    _, renaming, diagnostics = rename_unit(_unit(text, config), config, 1)
    assert renaming is not None, diagnostics
    assert [old for old, reason in renaming.kept.items() if reason == "looked_up"] == [name]


def test_branches_that_are_not_compiled_are_renamed_too(config: ParseConfig) -> None:
    text = (
        "__device__ int total_;\n#ifdef OTHER\n__global__ void other_(int* p_) { int own_ = 1; p_[0] = total_ + own_; "
        "externalCall(); }\n#else\n__global__ void this_(int* p_) { p_[0] = total_; }\n#endif\n"
    )
    words = _words(_renamed(text, config))
    assert not words & {"total_", "other_", "this_", "p_", "own_"}
    assert "externalCall" in words, "it is declared nowhere: perhaps a library's"
