"""The models the guide speaks of, and the one the demo runs.

Facts are as each model's card and files state them on the hub. Counts of dense models are computed from the layers,
widths and vocabulary in their config.json, and agree with the rounded count on the card.
"""

from datetime import date

from django.db import migrations

CARD_AND_CONFIG = "model card and config.json on the hub; parameters computed from config.json"

# repo_id, name, slug, facts, summaries (en, fr, pt-br)
MODELS = [
    ("zai-org/GLM-5.3", "GLM-5.3", "glm-5-3", {
        "params_total": 753_300_000_000,
        "experts": 256,
        "experts_per_token": 8,
        "context": 1_048_576,
        "stored_as": "FP8",
        "licence": "other",
        "released_on": date(2026, 8, 25),
        "facts_source": "model card and files on the hub",
        "interest": 70,
    }, (
        "A mixture-of-experts model with 753.3 billion parameters and a context of a million tokens, published in FP8.",
        "Un modèle à mélange d'experts de 753,3 milliards de paramètres, avec un contexte d'un million de tokens, "
        "publié en FP8.",
        "Um modelo de mistura de especialistas com 753,3 bilhões de parâmetros e contexto de um milhão de tokens, "
        "publicado em FP8.",
    )),
    ("meta-llama/Llama-3.3-70B-Instruct", "Llama 3.3 70B Instruct", "llama-3-3-70b-instruct", {
        "params_total": 70_553_706_496,
        "context": 131_072,
        "stored_as": "BF16",
        "licence": "llama3.3",
        "released_on": date(2024, 12, 6),
        "gated": True,
        "facts_source": CARD_AND_CONFIG,
        "interest": 60,
    }, (
        "Meta's multilingual chat model of the 70B class. The hub gives its weights to accounts that Meta has accepted.",
        "Le modèle de dialogue multilingue de Meta de la classe 70B. Le hub remet ses poids aux comptes que Meta a "
        "acceptés.",
        "O modelo de diálogo multilíngue da Meta da classe 70B. O hub entrega seus pesos às contas aceitas pela Meta.",
    )),
    ("meta-llama/Llama-3.1-8B-Instruct", "Llama 3.1 8B Instruct", "llama-3-1-8b-instruct", {
        "params_total": 8_030_261_248,
        "context": 131_072,
        "stored_as": "BF16",
        "licence": "llama3.1",
        "released_on": date(2024, 7, 23),
        "gated": True,
        "facts_source": CARD_AND_CONFIG,
        "interest": 50,
    }, (
        "Meta's small multilingual chat model. The hub gives its weights to accounts that Meta has accepted.",
        "Le petit modèle de dialogue multilingue de Meta. Le hub remet ses poids aux comptes que Meta a acceptés.",
        "O modelo pequeno de diálogo multilíngue da Meta. O hub entrega seus pesos às contas aceitas pela Meta.",
    )),
    ("meta-llama/Llama-3.1-405B-Instruct", "Llama 3.1 405B Instruct", "llama-3-1-405b-instruct", {
        "params_total": 405_853_388_800,
        "context": 131_072,
        "stored_as": "BF16",
        "licence": "llama3.1",
        "released_on": date(2024, 7, 23),
        "gated": True,
        "facts_source": CARD_AND_CONFIG,
        "interest": 40,
    }, (
        "Meta's largest dense chat model. The hub gives its weights to accounts that Meta has accepted.",
        "Le plus grand modèle de dialogue dense de Meta. Le hub remet ses poids aux comptes que Meta a acceptés.",
        "O maior modelo denso de diálogo da Meta. O hub entrega seus pesos às contas aceitas pela Meta.",
    )),
    ("Qwen/Qwen2.5-32B-Instruct", "Qwen2.5 32B Instruct", "qwen2-5-32b-instruct", {
        "params_total": 32_763_876_352,
        "context": 131_072,
        "stored_as": "BF16",
        "licence": "apache-2.0",
        "released_on": date(2024, 9, 19),
        "facts_source": CARD_AND_CONFIG,
        "interest": 30,
    }, (
        "A multilingual chat model of Alibaba Cloud's Qwen team, under the Apache 2.0 licence.",
        "Un modèle de dialogue multilingue de l'équipe Qwen d'Alibaba Cloud, sous licence Apache 2.0.",
        "Um modelo de diálogo multilíngue da equipe Qwen da Alibaba Cloud, sob a licença Apache 2.0.",
    )),
    ("Qwen/Qwen2.5-14B-Instruct", "Qwen2.5 14B Instruct", "qwen2-5-14b-instruct", {
        "params_total": 14_770_033_664,
        "context": 131_072,
        "stored_as": "BF16",
        "licence": "apache-2.0",
        "released_on": date(2024, 9, 19),
        "facts_source": CARD_AND_CONFIG,
        "interest": 20,
    }, (
        "A multilingual chat model of Alibaba Cloud's Qwen team that fits one 48 GB GPU in 16 bits.",
        "Un modèle de dialogue multilingue de l'équipe Qwen d'Alibaba Cloud qui tient sur un GPU de 48 Go en 16 bits.",
        "Um modelo de diálogo multilíngue da equipe Qwen da Alibaba Cloud que cabe em uma GPU de 48 GB em 16 bits.",
    )),
    ("HuggingFaceTB/SmolLM2-135M-Instruct", "SmolLM2 135M Instruct", "smollm2-135m-instruct", {
        "params_total": 134_515_008,
        "context": 8_192,
        "stored_as": "BF16",
        "licence": "apache-2.0",
        "released_on": date(2024, 11, 1),
        "facts_source": CARD_AND_CONFIG,
        "interest": 10,
    }, (
        "Hugging Face's smallest chat model of the SmolLM2 family: small enough to run without a GPU.",
        "Le plus petit modèle de dialogue de la famille SmolLM2 de Hugging Face : assez petit pour tourner sans GPU.",
        "O menor modelo de diálogo da família SmolLM2 da Hugging Face: pequeno o bastante para rodar sem GPU.",
    )),
]


def load(apps, schema_editor=None):
    """Also for tests that emptied the tables: `load(django.apps.apps)`."""
    models = apps.get_model("sizing", "HubModel").objects
    for repo_id, name, slug, facts, (en, fr, pt_br) in MODELS:
        texts = {"summary": en, "summary_en": en, "summary_fr": fr, "summary_pt_br": pt_br}
        models.update_or_create(repo_id=repo_id, defaults={"name": name, "slug": slug, **facts, **texts})


class Migration(migrations.Migration):
    dependencies = [("sizing", "0001_initial")]
    operations = [migrations.RunPython(load, migrations.RunPython.noop)]
