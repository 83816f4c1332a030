"""Plans: figures that were logged, splits over GPUs, and what never happens."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.architecture import Architecture, read
from sizing.configurations import Gpu, choose
from sizing.facts import ModelFacts
from sizing.finetuning import Tuning, training
from sizing.overheads import Batch
from sizing.plan import (
    Machine,
    Serving,
    bytes_per_token,
    plan,
    request_bytes,
    state_bytes,
    valid_ranks,
    weights_per_gpu,
)
from sizing.precision import UnknownPrecision, weight_bytes
from sizing.throughput import price_per_million, tokens_per_second
from tests.sizing.test_architecture import MLA, config

MIB, GIB = 1024**2, 1024**3


def facts(params: int = 8_030_261_248, **changes: Any) -> ModelFacts:
    told: dict[str, Any] = {
        "repo_id": "a/b",
        "revision": "0" * 40,
        "params_total": params,
        "params_active": None,
        "params_mtp": 0,
        "bytes_by_dtype": {"BF16": 2 * params},
        "params_by_dtype": {"BF16": params},
        "stored_as": "BF16",
        "config": {},
        "gguf": None,
        "files": (),
        "kind": "text",
        "base_repo": None,
        "experts": None,
        "experts_per_token": None,
        "context": None,
        "licence": "",
        "released_on": None,
        "gated": False,
    }
    return ModelFacts(**{**told, **changes})


LLAMA = read(config())
H100 = Machine(81_559)


def of(**changes: Any) -> Architecture:
    return read(config(**changes))


def test_cache_of_a_token() -> None:
    assert bytes_per_token(LLAMA, Serving(), 1) == 32 * 8 * 128 * 2 * 2
    assert bytes_per_token(LLAMA, Serving(kv_dtype="fp8"), 1) == 32 * 8 * 128 * 2
    assert bytes_per_token(LLAMA, Serving(engine="llamacpp", kv_dtype="q8_0"), 1) == 32 * 2048 * 34 // 32


def test_a_kv_head_is_repeated_where_ranks_outnumber_heads() -> None:
    few = of(num_key_value_heads=2)
    assert [bytes_per_token(few, Serving(), ranks) for ranks in (1, 2, 4, 8)] == [32768, 16384, 16384, 16384]


def test_a_latent_cache_is_whole_on_each_rank() -> None:
    kimi = of(model_type="kimi_k2", num_hidden_layers=61, num_attention_heads=64, **MLA)
    assert bytes_per_token(kimi, Serving(), 1) == bytes_per_token(kimi, Serving(), 8) == 70272  # SGLang's log of K2.5


def test_the_indexer_is_in_the_cache() -> None:
    """sgl-project/sglang#11309: 61 x 132 bytes beside the latent."""
    keys = {"index_head_dim": 128, "index_n_heads": 64}
    both = of(model_type="deepseek_v32", num_hidden_layers=61, **MLA, **keys)
    latent = of(model_type="deepseek_v3", num_hidden_layers=61, **MLA)
    assert bytes_per_token(both, Serving(), 1) - bytes_per_token(latent, Serving(), 1) == 61 * 132


def test_a_window_holds_its_tokens_and_the_pass_in_work() -> None:
    """llama.cpp logs 1,024 cells for Gemma 4 E4B: 512 of the window, 512 of the batch (40 MiB in 20 layers)."""
    windowed = of(model_type="mistral", num_hidden_layers=20, num_key_value_heads=2, head_dim=256, sliding_window=512)
    serving = Serving(engine="llamacpp")
    assert request_bytes(windowed, serving, 32768, Batch(512, 1), 1) == 40 * MIB


def test_gpt_oss_needs_what_vllm_says() -> None:
    """vllm#27508: 4.54 GiB for one request of 131,072 tokens in passes of 1,024."""
    gpt_oss = of(model_type="gpt_oss", num_hidden_layers=36, num_attention_heads=64, head_dim=64, sliding_window=128)
    needed = request_bytes(gpt_oss, Serving(), 131072, Batch(1024, 256), 1)
    assert round(needed / GIB, 2) == 4.54


def test_the_state_of_a_hybrid_does_not_grow() -> None:
    """LM Studio's log of Qwen3.6-27B: 598.5 MiB of state for four sequences in 48 layers."""
    qwen = of(
        model_type="qwen3_5",
        num_hidden_layers=64,
        num_attention_heads=24,
        num_key_value_heads=4,
        head_dim=256,
        full_attention_interval=4,
        linear_num_key_heads=16,
        linear_key_head_dim=128,
        linear_num_value_heads=48,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
    )
    assert round(4 * state_bytes(qwen, "llamacpp", 1) / MIB, 1) == 598.5
    assert request_bytes(qwen, Serving(engine="llamacpp"), 262144, Batch(512, 1), 1) == 16384 * MIB


def test_prefill_of_llama_as_vllm_logs_it() -> None:
    """vllm#10517: peaks of 2.07 and 2.99 GiB for passes of 20,000 and 29,000 tokens on an RTX 3090."""
    for tokens, logged in ((20_000, 2.07), (29_000, 2.99)):
        planned = plan(facts(), LLAMA, Machine(24_146), Serving(share=0.9, batch=Batch(tokens, 256)))
        assert planned.activations / GIB == pytest.approx(logged, rel=0.02)


def test_rotary_tables_are_in_what_vllm_loads() -> None:
    """vllm#10517: 14.9888 GiB for Llama 3.1 8B."""
    assert round(weights_per_gpu(facts(), LLAMA, 1, Serving()) / GIB, 4) == 14.9888
    assert weights_per_gpu(facts(), LLAMA, 1, Serving(engine="llamacpp")) == facts().weight_bytes


def test_experts_in_mxfp4_are_padded() -> None:
    """llm-d planner: 64.38 GiB for gpt-oss-120b."""
    keys = {"hidden_size": 2880, "intermediate_size": 2880, "num_local_experts": 128, "num_experts_per_tok": 4}
    gpt_oss = of(model_type="gpt_oss", num_hidden_layers=36, num_attention_heads=64, head_dim=64, **keys)
    params, experts = 116_829_156_672, 36 * 128 * 3 * 2880 * 2880
    stored = {"U8": experts * 17 // 32, "BF16": 2 * (params - experts)}
    known = facts(params, bytes_by_dtype=stored, params_by_dtype={"MXFP4": experts, "BF16": params - experts})
    assert weights_per_gpu(known, gpt_oss, 1, Serving()) / GIB == pytest.approx(64.38, rel=0.01)


def test_split_over_what_divides() -> None:
    assert valid_ranks(LLAMA, "vllm") == (1, 2, 4, 8)
    assert valid_ranks(of(num_attention_heads=28, num_key_value_heads=4), "vllm") == (1, 2, 4)
    assert valid_ranks(of(num_attention_heads=28, num_key_value_heads=4), "llamacpp") == (1, 2, 4, 8)
    grouped = of(intermediate_size=18944, quantization_config={"bits": 4, "group_size": 128})
    assert valid_ranks(grouped, "vllm") == (1, 2, 4)


def test_routers_and_repeated_heads_make_a_rank_hold_more_than_its_part() -> None:
    moe = of(model_type="qwen3_moe", num_experts=128, num_experts_per_tok=8, num_key_value_heads=4)
    assert weights_per_gpu(facts(), moe, 8, Serving()) > facts().weight_bytes / 8
    assert weights_per_gpu(facts(), LLAMA, 8, Serving(engine="sglang")) == facts().weight_bytes // 8


def test_reasons() -> None:
    assert plan(facts(), LLAMA, H100, Serving()).reason is None
    assert plan(facts(70_000_000_000), LLAMA, H100, Serving()).reason == "weights"
    assert plan(facts(), LLAMA, H100, Serving(context=131072, concurrency=64)).reason == "cache"
    assert plan(facts(), LLAMA, H100, Serving(context=200_000)).reason == "context"
    assert plan(facts(), of(num_attention_heads=28), Machine(81_559, 8), Serving()).reason == "heads"


def test_the_most_requests_hold_and_one_more_does_not() -> None:
    most = plan(facts(), LLAMA, H100, Serving(context=32768)).concurrency
    assert plan(facts(), LLAMA, H100, Serving(context=32768, concurrency=most)).holds
    assert not plan(facts(), LLAMA, H100, Serving(context=32768, concurrency=most + 1)).holds


def test_the_longest_context_holds_and_one_token_more_does_not() -> None:
    small = Machine(24_564)
    longest = plan(facts(), LLAMA, small, Serving()).longest_context
    assert 8192 < longest < 131072
    assert plan(facts(), LLAMA, small, Serving(context=longest)).holds
    assert not plan(facts(), LLAMA, small, Serving(context=longest + 1)).holds


def test_precisions() -> None:
    assert weight_bytes(8_030_261_248, LLAMA.embedding, "16") == 2 * 8_030_261_248
    assert weight_bytes(8_030_261_248, LLAMA.embedding, "Q4_K_M") / GIB == pytest.approx(4.58, abs=0.01)
    with pytest.raises(UnknownPrecision):
        weight_bytes(1, 0, "Q99")
    with pytest.raises(UnknownPrecision):
        plan(facts(), LLAMA, H100, Serving(kv_dtype="q99"))
    with pytest.raises(ValueError, match="at least one"):
        plan(facts(), LLAMA, H100, Serving(concurrency=0))


GPUS = [
    Gpu("rtx-4090", 24_564, 1, Decimal("0.40")),
    Gpu("l40s", 46_068, 2, Decimal("0.90")),
    Gpu("h100", 81_559, 3, Decimal("2.00")),
]


def test_choice_names_smallest_cheapest_and_why_not_the_others() -> None:
    choice = choose(facts(30_000_000_000), LLAMA, GPUS, Serving())
    assert choice.smallest is not None and choice.cheapest is not None
    assert (choice.smallest.gpu.key, choice.smallest.count) == ("h100", 1)
    assert (choice.cheapest.gpu.key, choice.cheapest.count) == ("rtx-4090", 4)
    assert choice.saving == Decimal("0.40")
    why = {(each.gpu.key, each.count): reason for each, reason in choice.dropped}
    assert why["rtx-4090", 1] == "weights"
    assert why["h100", 8] == "dearer"
    assert len(why) == 3 * 4 - 2


def test_decoding_reads_more_experts_with_more_requests() -> None:
    moe = of(model_type="qwen3_moe", num_experts=128, num_experts_per_tok=8)
    known = facts(30_532_122_624, params_active=3_300_000_000, experts=128, experts_per_token=8)

    def speed(requests: int) -> float:
        planned = plan(known, moe, H100, Serving(concurrency=requests))
        return tokens_per_second(known, moe, planned, concurrency=requests, bandwidth_gb_s=3350)

    assert speed(1) > 100
    assert speed(1) < speed(16) < 16 * speed(1)
    assert price_per_million(Decimal("2.00"), 1000.0) == Decimal("0.5556")
    assert price_per_million(Decimal("2.00"), 0.0) is None


def test_training() -> None:
    full = training(facts(), LLAMA, Tuning("full"))
    assert full.weights + full.gradients + full.optimiser == 16 * facts().params_total
    lora, qlora = training(facts(), LLAMA, Tuning("lora")), training(facts(), LLAMA, Tuning("qlora"))
    assert qlora.total < lora.total < full.total
    assert lora.trained == 41_943_040  # rank 16 on all linear layers of Llama 3.1 8B, as PEFT prints it
    stored = training(facts(), LLAMA, Tuning("lora", checkpointing=False))
    assert stored.activations > lora.activations
    assert training(facts(), LLAMA, Tuning("full", optimiser="adamw-8bit")).total < full.total


SETTINGS = st.builds(
    Serving,
    engine=st.sampled_from(["vllm", "sglang", "llamacpp"]),
    precision=st.sampled_from(["published", "16", "8", "4", "Q4_K_M"]),
    kv_dtype=st.sampled_from(["auto", "fp8"]),
    context=st.integers(1, 131072),
    concurrency=st.integers(1, 512),
)
ARCHITECTURES = st.sampled_from(
    [
        LLAMA,
        of(model_type="gemma3_text", sliding_window=1024, sliding_window_pattern=6),
        of(model_type="deepseek_v3", **MLA),
        of(model_type="qwen3_moe", num_experts=128, num_experts_per_tok=8),
    ]
)
PARAMS = st.integers(10**8, 10**12)
MACHINES = st.builds(Machine, st.integers(8_000, 300_000), st.sampled_from([1, 2, 4, 8]))


@given(PARAMS, ARCHITECTURES, MACHINES, SETTINGS, st.integers(0, 10**11))
def test_more_parameters_never_need_less(
    params: int, architecture: Architecture, machine: Machine, serving: Serving, more: int
) -> None:
    small, large = (plan(facts(each), architecture, machine, serving) for each in (params, params + more))
    assert small.needed <= large.needed
    assert small.free >= large.free


@given(PARAMS, ARCHITECTURES, MACHINES, SETTINGS, st.integers(0, 10**5), st.integers(0, 100))
def test_more_context_or_requests_never_need_less(
    params: int, architecture: Architecture, machine: Machine, serving: Serving, tokens: int, requests: int
) -> None:
    more = replace(serving, context=serving.context + tokens, concurrency=serving.concurrency + requests)
    small, large = (plan(facts(params), architecture, machine, each) for each in (serving, more))
    assert small.needed <= large.needed
    assert small.free >= large.free
    assert small.holds or not large.holds


@given(PARAMS, ARCHITECTURES, SETTINGS)
def test_what_is_chosen_holds_and_nothing_smaller_does(
    params: int, architecture: Architecture, serving: Serving
) -> None:
    choice = choose(facts(params), architecture, GPUS, serving)
    holding = [each for each, _why in choice.dropped if each.plan.holds]
    if choice.smallest is None or choice.cheapest is None:
        assert holding == []
        return
    assert choice.smallest.plan.holds and choice.cheapest.plan.holds
    assert all(choice.smallest.memory_mib <= each.memory_mib for each in [*holding, choice.cheapest])
    assert all((choice.cheapest.price or 0) <= (each.price or 0) for each in [*holding, choice.smallest])
