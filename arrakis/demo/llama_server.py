"""`llama-server` for the demo: its command line, over llama.cpp's own HTTP server as the xllamacpp wheel carries it.

Standard library and xllamacpp only: it is run by path, on the machine that was rented. Flags and messages are those of
llama.cpp's tools/server; what it does not know it refuses as llama-server does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

Setter = Callable[[Any, str], None]
_ALL_LAYERS = 999
_STOPPERS = (signal.SIGTERM, signal.SIGINT)


class BadFlag(Exception):
    """The command line is wrong; the message is llama-server's."""


def main(arguments: Sequence[str]) -> int:
    if "--version" in arguments:
        print(f"version: {_version()} (xllamacpp)", file=sys.stderr)
        return 0
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPERS)  # for llama.cpp's threads too: only ours takes them
    try:
        params = parse(arguments)
    except BadFlag as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return serve(params)


def serve(params: Any) -> int:
    """Until SIGTERM or SIGINT: 0. llama.cpp says itself on stderr why a model cannot be served: 1."""
    from xllamacpp import Server

    is_loaded, is_over = threading.Event(), threading.Event()

    def wait_for_signal() -> None:
        signal.sigwait(_STOPPERS)
        if not is_loaded.is_set():
            os._exit(0)
        is_over.set()

    threading.Thread(target=wait_for_signal, daemon=True).start()
    try:
        server = Server(params)  # returns once the model is loaded; until then it answers 503
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    is_loaded.set()
    is_over.wait()
    del server  # ends its threads
    return 0


def parse(arguments: Sequence[str], params: Any = None) -> Any:
    """llama.cpp's parameters. `params` for tests; a fresh xllamacpp.CommonParams without. Raises BadFlag."""
    params = params if params is not None else _fresh()
    words = iter(arguments)
    for word in words:
        name, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in _SWITCHES and not has_value:
            _SWITCHES[name](params)
        elif name in _VALUES:
            _set(params, name, value if has_value else _next(words, name))
        else:
            raise BadFlag(f"invalid argument: {word}")
    _add_environment(params)
    if not params.model.path:
        raise BadFlag("a model is needed: -m FILE")
    return params


def _fresh() -> Any:
    from xllamacpp import CommonParams

    params = CommonParams()
    params.hostnames, params.port, params.n_parallel = ["127.0.0.1"], 8080, 4
    return params


def _next(words: Iterator[str], name: str) -> str:
    try:
        return next(words)
    except StopIteration:
        raise BadFlag(f'expected value for argument: "{name}"') from None


def _set(params: Any, name: str, value: str) -> None:
    try:
        _VALUES[name](params, value)
    except (ValueError, OverflowError, TypeError, AttributeError, IndexError, OSError) as error:
        raise BadFlag(f'error while handling argument "{name}": {error}') from error


def _add_environment(params: Any) -> None:
    """Keys may come by environment, where no process list shows them."""
    if keys := os.environ.get("LLAMA_API_KEY"):
        _add_keys(params, keys.split(","))
    if path := os.environ.get("LLAMA_ARG_API_KEY_FILE"):
        _set(params, "--api-key-file", path)


# ------------------------------------------------------------------ setters


def _attribute(path: str, kind: Callable[[str], Any]) -> Setter:
    *parents, last = path.split(".")

    def setter(params: Any, value: str) -> None:
        target = params
        for parent in parents:
            target = getattr(target, parent)
        setattr(target, last, kind(value))

    return setter


def _enumeration(path: str, kind: str, prefix: str, **also: str) -> Setter:
    """A member of one of xllamacpp's enumerations, by the end of its name as llama-server spells it."""

    def member(value: str) -> Any:
        import xllamacpp

        choices = getattr(xllamacpp, kind)
        name = f"{prefix}_{also.get(value, value).upper().replace('-', '_')}"
        if not hasattr(choices, name):
            raise ValueError(f"invalid value: {value}")
        return getattr(choices, name)

    return _attribute(path, member)


def _switch(path: str, value: bool) -> Callable[[Any], None]:
    setter = _attribute(path, bool)
    return lambda params: setter(params, "yes" if value else "")


def _ignored(*_: Any) -> None:
    """Accepted without effect: there is no web UI here, no file or colour of the log."""


def _layers(value: str) -> int:
    return {"all": _ALL_LAYERS, "auto": -1}[value] if value in {"all", "auto"} else int(value)


def _split(params: Any, value: str) -> None:
    parts = [float(part) for part in value.replace("/", ",").split(",")]
    params.tensor_split = parts + [0.0] * (len(params.tensor_split) - len(parts))


def _alias(params: Any, value: str) -> None:
    params.model_alias = {name for part in value.split(",") if (name := part.strip())}


def _add_keys(params: Any, keys: Sequence[str]) -> None:
    params.api_keys = [*params.api_keys, *(key for key in keys if key)]


def _key_file(params: Any, path: str) -> None:
    lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    _add_keys(params, [line for line in lines if not line.startswith("#")])


def _template_file(params: Any, path: str) -> None:
    params.chat_template = Path(path).read_text(encoding="utf-8")


def _host(params: Any, value: str) -> None:
    params.hostnames = [value]


def _reranking(params: Any) -> None:
    from xllamacpp import llama_pooling_type

    params.embedding, params.pooling_type = True, llama_pooling_type.LLAMA_POOLING_TYPE_RANK


def _named(*pairs: tuple[str, Any]) -> dict[str, Any]:
    """{flag: setter} from "-a --alias" and its setter."""
    return {name: setter for names, setter in pairs for name in names.split()}


_VALUES: dict[str, Setter] = _named(
    ("-m --model", _attribute("model.path", str)),
    ("-a --alias", _alias),
    ("--host", _host),
    ("--port", _attribute("port", int)),
    ("-c --ctx-size", _attribute("n_ctx", int)),
    ("-n --predict --n-predict", _attribute("n_predict", int)),
    ("-np --parallel", _attribute("n_parallel", int)),
    ("-t --threads", _attribute("cpuparams.n_threads", int)),
    ("-tb --threads-batch", _attribute("cpuparams_batch.n_threads", int)),
    ("--threads-http", _attribute("n_threads_http", int)),
    ("-b --batch-size", _attribute("n_batch", int)),
    ("-ub --ubatch-size", _attribute("n_ubatch", int)),
    ("-ngl --gpu-layers --n-gpu-layers", _attribute("n_gpu_layers", _layers)),
    ("-mg --main-gpu", _attribute("main_gpu", int)),
    ("-sm --split-mode", _enumeration("split_mode", "llama_split_mode", "LLAMA_SPLIT_MODE")),
    ("-ts --tensor-split", _split),
    ("-ctk --cache-type-k", _enumeration("cache_type_k", "ggml_type", "GGML_TYPE")),
    ("-ctv --cache-type-v", _enumeration("cache_type_v", "ggml_type", "GGML_TYPE")),
    (
        "-fa --flash-attn",
        _enumeration("flash_attn_type", "llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE", on="enabled", off="disabled"),
    ),
    ("--pooling", _enumeration("pooling_type", "llama_pooling_type", "LLAMA_POOLING_TYPE")),
    (
        "--reasoning-format",
        _enumeration("reasoning_format", "common_reasoning_format", "COMMON_REASONING_FORMAT"),
    ),
    ("--chat-template", _attribute("chat_template", str)),
    ("--chat-template-file", _template_file),
    ("--api-key", lambda params, value: _add_keys(params, value.split(","))),
    ("--api-key-file", _key_file),
    ("--temp --temperature", _attribute("sampling.temp", float)),
    ("--top-p", _attribute("sampling.top_p", float)),
    ("--top-k", _attribute("sampling.top_k", int)),
    ("--min-p", _attribute("sampling.min_p", float)),
    ("-s --seed", _attribute("sampling.seed", lambda value: int(value) & 0xFFFFFFFF)),
    ("--repeat-penalty", _attribute("sampling.penalty_repeat", float)),
    ("--repeat-last-n", _attribute("sampling.penalty_last_n", int)),
    ("--presence-penalty", _attribute("sampling.penalty_present", float)),
    ("--frequency-penalty", _attribute("sampling.penalty_freq", float)),
    ("-lv --verbosity --log-verbosity", _attribute("verbosity", int)),
    ("--log-file --log-colors", _ignored),
)
_SWITCHES: dict[str, Callable[[Any], None]] = _named(
    ("--jinja", _switch("use_jinja", True)),
    ("--no-jinja", _switch("use_jinja", False)),
    ("--metrics", _switch("endpoint_metrics", True)),
    ("--props", _switch("endpoint_props", True)),
    ("--slots", _switch("endpoint_slots", True)),
    ("--no-slots", _switch("endpoint_slots", False)),
    ("--no-ui --no-webui", _switch("ui", False)),
    ("--embedding --embeddings", _switch("embedding", True)),
    ("--rerank --reranking", _reranking),
    ("--no-warmup", _switch("warmup", False)),
    ("-kvu --kv-unified", _switch("kv_unified", True)),
    ("--context-shift", _switch("ctx_shift", True)),
    ("--no-context-shift", _switch("ctx_shift", False)),
    ("--offline", _switch("offline", True)),
    ("--log-jsonl", _switch("log_json", True)),
    ("--log-disable --log-prefix --log-timestamps", _ignored),
)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("xllamacpp")
    except PackageNotFoundError:  # copied without its metadata
        return "unknown"


def _run() -> NoReturn:
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # llama.cpp's threads have nothing left to do, and their end can hang


if __name__ == "__main__":
    _run()
