"""Why something failed, or is not to be relied on: the short codes of errors, results, documents and corpora."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A code, what it means, and what may help where no error says more; "" where nothing does in general."""

    meaning: str
    remedy: str

    def __new__(cls, code: str, meaning: str, remedy: str = "") -> Reason:
        reason = str.__new__(cls, code)
        reason._value_, reason.meaning, reason.remedy = code, meaning, remedy
        return reason

    @classmethod
    def of(cls, code: str) -> Reason:
        """The reason with this code. Raises ValueError for any other text."""
        for reason in cls:
            if reason == code:
                return reason
        raise ValueError(f"{code!r} is no reason")

    NONE = "", "nothing failed"

    # Errors of the command line, of files and of the machine.
    ERROR = "error", "an error without a reason of its own"
    USAGE = "usage", "the command line names an option, value or item that does not exist"
    BAD_INPUT = "bad_input", "a file, program or corpus cannot be used"
    BAD_ARCH = "bad_arch", "the architecture is not known"
    BAD_FLAG = "bad_flag", "a compiler flag is not allowed or not known"
    BAD_RECORD = "bad_record", "a line or row has not the form that it should have"
    CORRUPT = "corrupt", "a part of a corpus or release is damaged"
    SCHEMA_VERSION = "schema_version", "a corpus or release of another version of the format"
    MIXED_VERSIONS = "mixed_versions", "data of different versions of the simulator"
    DISK_FULL = "disk_full", "there is no space left for a file"
    MISSING = "missing", "a required toolchain, backend or package is not installed"
    MISSING_FILE = "missing_file", "a file or folder does not exist"
    UNREADABLE = "unreadable", "a program of a folder could not be read"
    DUPLICATE = "duplicate", "the text of a copy is that of another program"
    UNREADABLE_FILE = "unreadable_file", "a file may not be read"
    NOT_A_FILE = "not_a_file", "a path names something else than a regular file"
    NOT_UTF8 = "not_utf8", "a text is not UTF-8"
    NOT_TEXT = "not_text", "a text has NUL bytes"
    TOO_LARGE = "too_large", "a file or request is larger than allowed"
    OUTSIDE = "outside", "a path leads out of the folder that it belongs to"
    EMPTY_FILE = "empty_file", "a source has no text"
    BAD_CGROUP = "bad_cgroup", "the control group for the sandbox cannot be used"
    INTERNAL_ERROR = "internal_error", "a defect of hipsynth"
    INTERRUPTED = "interrupted", "Ctrl-C or a signal"
    PARTIAL = "partial", "some items of a batch failed"
    WORKER_DIED = "worker_died", "a worker process, or a sandbox, was ended from outside"

    # Programs before they run.
    NO_PROGRAMS = "no_programs", "nothing to work on was found"
    SEVERAL_PROGRAMS = "several_programs", "a folder has more than one program"
    NO_MAIN = "no_main", "sources without a main() that uses them"
    NO_KERNEL = "no_kernel", "the program has no kernel", "give the file that defines kernels"
    SYNTAX_ERROR = "syntax_error", "the source cannot be parsed", "mend the line that is named"
    PARSER_FAILED = "parser_failed", "libclang could not read the source"
    INCLUDE_OUTSIDE = "include_outside", "a header lies outside the program's folder", "give -I for its folder"
    HEADER_DIFFERS = "header_differs", "files of a program read one header with different macros"
    NAME_COLLISION = "name_collision", "a name that two files of a program have cannot be changed"
    RENAME_UNSAFE = "rename_unsafe", "with other names, a program would no longer mean the same"
    MISSING_INCLUDE = "missing_include", "a file that the source includes is not there"
    NEEDS_STANDARD = "needs_standard", "the source wants another version of C++"
    EDIT_CONFLICT = "edit_conflict", "two edits of a source overlap"
    COMPILE_FAILED = "compile_failed", "the compiler rejects the program", "mend what its message names"
    MISSING_HEADER = "missing_header", "a header is missing"
    LINK_FAILED = "link_failed", "the program does not link"
    NOT_CONFIGURED = "not_configured", "CMake cannot configure the project"
    CUDA_SOURCE = "cuda_source", "CUDA source, not HIP"

    # Programs that run.
    NO_DISPATCH = (
        "no_dispatch",
        "the program launched no kernel",
        "give arguments with which it launches a kernel, after --",
    )
    WRONG_RESULT = "wrong_result", "the output is not the expected one"
    SELF_CHECK_FAILED = "self_check_failed", "the program's own check failed"
    EXIT_CODE = "exit_code", "the program ended with an exit code that says failure"
    TIMEOUT = "timeout", "a limit on time was reached", "give it more time, or arguments with less work"
    BUDGET = "budget", "a run within a budget was ended before its end"
    INSTRUCTION_LIMIT = (
        "instruction_limit",
        "a kernel executed more instructions than allowed",
        "make the loop end, or give arguments with less work",
    )
    OUT_OF_MEMORY = (
        "out_of_memory",
        "a limit on memory was reached",
        "give smaller sizes: device memory is taken from this machine's",
    )
    OUTPUT_LIMIT = "output_limit", "the program wrote more than allowed", "print less"
    FORBIDDEN_CALL = (
        "forbidden_call",
        "a system call that the sandbox forbids",
        "leave out the call, or trust it with --no-sandbox",
    )
    HOST_CRASH = "host_crash", "the host program died of a signal", "run it in a debugger, with --no-sandbox"
    ILLEGAL_ACCESS = (
        "illegal_access",
        "a kernel accessed memory that it does not own",
        "guard the index, and pass memory of the device that has not been freed",
    )
    ASSERTION = (
        "assertion",
        "an assertion in a kernel failed",
        "use data for which the assertion holds, or mend the condition",
    )
    TRAP = "trap", "a kernel executed a trap", "use data that do not reach it"
    DEADLOCK = "deadlock", "a kernel waits for what cannot happen", "launch what is waited for first"
    UNSUPPORTED_OPCODE = "unsupported_opcode", "an instruction that the simulator cannot run"
    UNSUPPORTED_SERVICE = (
        "unsupported_service",
        "a host service that the simulator does not have",
        "leave out what is named",
    )
    UNSUPPORTED_CALL = (
        "unsupported_call",
        "a call of the HIP API that the simulator does not have",
        "leave out the call",
    )
    BAD_CODE_OBJECT = "bad_code_object", "code that cannot be loaded"
    BAD_CONFIGURATION = (
        "bad_configuration",
        "the runtime library does not take the configuration",
        "give sizes from which a grid follows, at most 1024 work-items a group, in Triton a power of two of warps",
    )
    BAD_RESULT = "bad_result", "the result that a program left behind is malformed"
    SETTLED = "settled", "the program repeats its launches, and was ended"
    RECORDED = "recorded", "as many launches as wanted were recorded"
    NEEDS_LIBRARY = (
        "needs_library",
        "a library that is not installed",
        "install it for the Python or compiler that runs hipsynth, or leave out what needs it",
    )
    NEEDS_MEMORY = "needs_memory", "more memory than it was given"
    NEEDS_DEVICES = "needs_devices", "another GPU, or more than one", "use device 0 alone"
    NEEDS_ARGUMENTS = "needs_arguments", "command-line arguments that are not known"
    NEEDS_DATA = "needs_data", "a file that is not in its folder"
    UNTRUSTED = "untrusted", "a program of a language model, which runs in the simulator alone"
    UNSUPPORTED = "unsupported", "a source that cannot be changed as wanted"
    AUTOTUNED = "autotuned", "Triton's autotuner chooses the kernel's configuration"
    NOT_IN_SCRIPT = "not_in_script", "the kernel is defined in another file"
    PERSISTENT = "persistent", "the kernel's programs step through the work by themselves"
    PROGRAM_ID_ELSEWHERE = (
        "program_id_elsewhere",
        "the kernel reads its program id in no form that can be replaced",
    )
    PROGRAM_ID_IN_HELPER = "program_id_in_helper", "a function that the kernel calls reads the program id"
    SEVERAL_SHAPES = "several_shapes", "the kernel's launches have several grids or groups"
    OVERLOADED = "overloaded", "several kernels have its name"
    NO_LITERALS = "no_literals", "the script has no number that sets a kernel's meta-parameters"
    NOT_RECORDED = "not_recorded", "a recording has no such program or target"
    NO_PREVIEW = "no_preview", "a launch depends on what only running shows"

    # Predictions.
    NO_HOST_CODE = "no_host_code", "the host code does not compile and link, so it launches nothing"
    NOT_RUN = "not_run", "the host code has not been run: it is not trusted here"
    UNKNOWN_KERNEL = "unknown_kernel", "a launched kernel whose code is compiled or loaded while the program runs"
    UNCERTAIN = "uncertain", "the interval of a duration is too wide"
    NOT_MEASURED = "not_measured", "a model with tools answers, but none of them measured the program"
    ABOVE_ROOF = "above_roof", "a model answers with more than the device can do"
    UNKNOWN_DATA = "unknown_data", "the kernel needs data that the program makes"

    # Servers, editors and models.
    NO_MODEL = "no_model", "there is no language model"
    TOO_SLOW = "too_slow", "a request did not arrive in time", "send it at once"
    BAD_HOST = "bad_host", "a request names another host"
    BAD_ORIGIN = "bad_origin", "a request comes from a page of another site"
    BAD_TOKEN = "bad_token", "a request has no valid token"
    SUPERSEDED = "superseded", "a newer version of the document was sent"
    BUSY = "busy", "too many requests wait"
    INVALID = "invalid", "a request has not the form that it should have"
    NOT_FOUND = "not_found", "there is nothing under this name"
    HTTP = "http", "a request that HTTP itself refuses"
    NOT_TRUSTED = "not_trusted", "execution is off for this folder"
    NOT_OPEN = "not_open", "the document is not open"
    ENDPOINT_FAILED = "endpoint_failed", "the endpoint of a language model does not answer"
    RATE_LIMITED = "rate_limited", "the endpoint wants fewer requests"
    HTTP_FAILED = "http_failed", "an endpoint answers with a status that says failure"
    UNREACHABLE = "unreachable", "there is no connection to an endpoint"
    REDIRECTED = "redirected", "an endpoint wants to be asked somewhere else"
    BAD_ENCODING = "bad_encoding", "an answer is not in UTF-8, or encoded as was not asked for"
    BAD_JSON = "bad_json", "an answer is not JSON"
    STREAMED = "streamed", "an endpoint streams although it was not asked to"
    NO_TEXT = "no_text", "an answer has no text"
    NOT_ASKED = "not_asked", "asking ended before the turn of a request"
    TOO_LONG = "too_long", "the messages do not fit the model's context"

    # Generator, tools and lessons.
    POLICY = "policy", "the policy cannot be met"
    TEMPLATE = "template", "a template is wrong"
    REPLAY = "replay", "recorded choices do not fit"
    INVALID_IR = "invalid_ir", "the intermediate form is wrong"
    REFUSED = "refused", "a tool does not take the call"
    LIMIT = "limit", "a tool's limit on calls, time or programs is reached"
    BAD_ARGUMENTS = "bad_arguments", "the arguments of a call are wrong"
    UNKNOWN_TOOL = "unknown_tool", "no tool has this name"
    UNKNOWN_PROGRAM = "unknown_program", "no program has this name"
    UNKNOWN_MOVE = "unknown_move", "no move has this name"
    NO_LESSON = "no_lesson", "a trace teaches nothing"
    NOT_VERIFIED = "not_verified", "the answer does not pass"
    UNCHANGED = "unchanged", "nothing that was tried is faster and correct"
    UNFINISHED = "unfinished", "a run of a model has not ended"


# Failures that may not be caused by the program: the next run of a resumable verb tries them again.
TRANSIENT = frozenset({Reason.WORKER_DIED, Reason.MISSING, Reason.INTERNAL_ERROR, Reason.DISK_FULL, Reason.INTERRUPTED})
