"""What the migrations put in: Gpus, their names, the models."""

from __future__ import annotations

import pytest

from catalog.models import Gpu, GpuAlias
from sizing.models import HubModel
from sizing.slugs import model_slug, slugify

pytestmark = pytest.mark.django_db


def test_suggested_gpus_are_told_in_the_published_languages() -> None:
    suggested = Gpu.objects.filter(is_suggested=True)
    assert suggested.count() == 11
    for gpu in suggested:
        assert gpu.compute_cap
        texts = {gpu.summary_en, gpu.summary_fr, gpu.summary_pt_br}  # type: ignore[attr-defined]
        assert len(texts) == 3
        assert all(texts)


def test_keys_are_the_slugs_of_the_addresses() -> None:
    assert all(gpu.key == slugify(gpu.name) for gpu in Gpu.objects.filter(is_suggested=True))


def test_no_unchecked_address_or_measurement_is_told() -> None:
    assert not Gpu.objects.exclude(vendor_url="").exists()
    assert set(Gpu.objects.exclude(reported_mib=None).values_list("key", "reported_mib")) == {("rtx-4090", 24_564)}


def test_the_cpu_is_no_public_gpu() -> None:
    cpu = Gpu.objects.get(key="cpu")
    assert (cpu.kind, cpu.is_listed, cpu.is_suggested) == ("cpu", False, False)
    assert not GpuAlias.objects.filter(gpu=cpu).exists()


def test_the_models() -> None:
    assert set(HubModel.objects.values_list("repo_id", "slug", "params_total", "gated")) == {
        ("zai-org/GLM-5.3", "glm-5-3", 753_300_000_000, False),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3-3-70b-instruct", 70_553_706_496, True),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3-1-8b-instruct", 8_030_261_248, True),
        ("meta-llama/Llama-3.1-405B-Instruct", "llama-3-1-405b-instruct", 405_853_388_800, True),
        ("Qwen/Qwen2.5-32B-Instruct", "qwen2-5-32b-instruct", 32_763_876_352, False),
        ("Qwen/Qwen2.5-14B-Instruct", "qwen2-5-14b-instruct", 14_770_033_664, False),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m-instruct", 134_515_008, False),
    }
    for model in HubModel.objects.all():
        assert model.slug == model_slug(model.repo_id, ())
        assert model.facts_source


def test_glm_5_3() -> None:
    glm = HubModel.objects.get(slug="glm-5-3")
    assert (glm.experts, glm.experts_per_token, glm.context) == (256, 8, 1_048_576)
    assert (glm.stored_as, glm.licence, str(glm.released_on)) == ("FP8", "other", "2026-08-25")
