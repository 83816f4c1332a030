"""What the engines run, refuse and let customers set."""

from __future__ import annotations

import pytest

from deploy.engines import ENGINES
from deploy.engines.base import MODEL_DIR, BadArgument, GpuFacts, LaunchPlan, ModelFacts

SAFETENSORS = ModelFacts(has_safetensors=True, has_gguf=False)
GGUF = ModelFacts(has_safetensors=False, has_gguf=True)
H100 = GpuFacts("H100", 8, 81_559, compute_capability=90, driver=580)


def plan(**changes: object) -> LaunchPlan:
    facts: dict[str, object] = {"model": MODEL_DIR, "served_name": "owner/model", "context": 4096}
    return LaunchPlan(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ENGINES)
def test_every_engine_listens_on_loopback_at_the_port_chosen_there(key: str) -> None:
    command = ENGINES[key].launch_command(plan())
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == "{port}"
    assert "owner/model" in command


@pytest.mark.parametrize("key", ENGINES)
@pytest.mark.parametrize(
    "argument",
    ["--host", "--port", "--api-key", "--model", "-m", "--served-model-name", "--alias", "--tools", "--agent", "--ssl"],
)
def test_no_engine_lets_a_customer_move_it_out_of_its_place(key: str, argument: str) -> None:
    with pytest.raises(BadArgument) as refused:
        ENGINES[key].check_args([argument, "0.0.0.0"])
    assert refused.value.code == "engine_argument_refused"
    assert refused.value.params == {"argument": argument}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--seed", "1", "2"], "engine_argument_stray"),
        (["x"], "engine_argument_stray"),
        (["--seed={port}"], "engine_argument_value"),
        (["--seed", "1\n--host"], "engine_argument_value"),
    ],
)
def test_values_that_belong_nowhere_are_named(args: list[str], code: str) -> None:
    with pytest.raises(BadArgument) as refused:
        ENGINES["vllm"].check_args(args)
    assert refused.value.code == code


def test_allowed_arguments_go_last() -> None:
    args = ENGINES["vllm"].check_args(["--max-num-seqs", "8", "--seed=-1", "--enforce-eager"])
    assert ENGINES["vllm"].launch_command(plan(args=args))[-4:] == [
        "--max-num-seqs",
        "8",
        "--seed=-1",
        "--enforce-eager",
    ]


def test_llamacpp_gives_every_slot_the_whole_context_and_one_thread_on_a_cpu() -> None:
    command = ENGINES["llamacpp"].launch_command(plan(parallel=2, host_kind="cpu"))
    assert command[command.index("--ctx-size") + 1] == "8192"
    assert command[command.index("-t") + 1] == "1"
    assert command[command.index("-ngl") + 1] == "0"
    assert "all" in ENGINES["llamacpp"].launch_command(plan())


@pytest.mark.parametrize(("key", "flag"), [("vllm", "--tensor-parallel-size"), ("sglang", "--tp")])
def test_tensor_parallel_is_said_only_for_several_gpus(key: str, flag: str) -> None:
    assert flag not in ENGINES[key].launch_command(plan(tensor_parallel=1))
    command = ENGINES[key].launch_command(plan(tensor_parallel=8))
    assert command[command.index(flag) + 1] == "8"


@pytest.mark.parametrize("key", ["vllm", "sglang"])
def test_vllm_and_sglang_say_why_they_cannot_run(key: str) -> None:
    engine = ENGINES[key]
    assert engine.refusal("gpu", H100, SAFETENSORS) is None

    def code(kind: str, gpu: GpuFacts | None, model: ModelFacts) -> str:
        refusal = engine.refusal(kind, gpu, model)  # type: ignore[arg-type]
        assert refusal is not None
        return refusal.code

    assert code("cpu", None, SAFETENSORS) == "engine_needs_gpu"
    assert code("gpu", H100, GGUF) == "engine_needs_safetensors"
    assert code("gpu", GpuFacts("V100", 1, 16_384, compute_capability=70), SAFETENSORS) == "engine_gpu_too_old"
    assert code("gpu", GpuFacts("H100", 1, 81_559, driver=550), SAFETENSORS) == "engine_driver_too_old"


def test_llamacpp_needs_a_gguf_and_nothing_else() -> None:
    engine = ENGINES["llamacpp"]
    assert engine.refusal("cpu", None, GGUF) is None
    refusal = engine.refusal("gpu", H100, SAFETENSORS)
    assert refusal is not None
    assert refusal.code == "engine_needs_gguf"


@pytest.mark.parametrize(
    ("key", "line", "stage"),
    [
        ("llamacpp", "0.00.1 I srv load: loading model '/m.gguf'", "loading_weights"),
        ("llamacpp", "0.00.2 I main: listening on http://127.0.0.1:1", "ready"),
        ("vllm", "INFO Starting to load model /m...", "loading_weights"),
        ("vllm", "INFO:     Application startup complete.", "ready"),
        ("sglang", "Load weight begin. avail mem=70.1 GB", "loading_weights"),
        ("sglang", "The server is fired up and ready to roll!", "ready"),
        ("sglang", "something else", None),
    ],
)
def test_progress_is_read_from_the_lines_engines_write(key: str, line: str, stage: str | None) -> None:
    assert ENGINES[key].parse_progress(line) == stage
