"""The Gpus people compare, and the names providers give them.

Facts are the makers' as their public documents state them: compute capability from NVIDIA's "CUDA GPU Compute
Capability"; memory from the MIG user guide's and the NIM documentation's tables of supported GPUs, or a provider's own
table where those are silent; FP8 and FP4 from the Transformer Engine documentation. B300 is counted at 262.5 GB, an
eighth of the 2,100 GB of a machine of eight, though 288 GB is named for the chip. `reported_mib` is what nvidia-smi
was seen to print. Vendors' pages are left out until each has been opened and checked.
"""

from decimal import Decimal

from django.db import migrations

# key, name, memory in GB, compute capability, reported MiB, summaries (en, fr, pt-br)
SUGGESTED = [
    ("rtx-4090", "RTX 4090", "24", "8.9", 24564, (
        "A consumer GPU of the Ada Lovelace generation, with FP8 in hardware.",
        "Un GPU grand public de la génération Ada Lovelace, avec le FP8 matériel.",
        "Uma GPU de consumo da geração Ada Lovelace, com FP8 em hardware.",
    )),
    ("rtx-3090", "RTX 3090", "24", "8.6", None, (
        "A consumer GPU of the Ampere generation, without FP8 in hardware.",
        "Un GPU grand public de la génération Ampere, sans FP8 matériel.",
        "Uma GPU de consumo da geração Ampere, sem FP8 em hardware.",
    )),
    ("l40s", "L40S", "48", "8.9", None, (
        "A PCIe data-centre GPU of the Ada Lovelace generation, with FP8 in hardware. Its ECC memory reports a little "
        "less than 48 GB.",
        "Un GPU PCIe de centre de données de la génération Ada Lovelace, avec le FP8 matériel. Sa mémoire ECC annonce "
        "un peu moins de 48 Go.",
        "Uma GPU PCIe de data center da geração Ada Lovelace, com FP8 em hardware. Sua memória ECC informa um pouco "
        "menos de 48 GB.",
    )),
    ("rtx-6000-ada", "RTX 6000 Ada", "48", "8.9", None, (
        "A workstation GPU of the Ada Lovelace generation, with FP8 in hardware.",
        "Un GPU de station de travail de la génération Ada Lovelace, avec le FP8 matériel.",
        "Uma GPU de estação de trabalho da geração Ada Lovelace, com FP8 em hardware.",
    )),
    ("rtx-a6000", "RTX A6000", "48", "8.6", None, (
        "A workstation GPU of the Ampere generation, without FP8 in hardware.",
        "Un GPU de station de travail de la génération Ampere, sans FP8 matériel.",
        "Uma GPU de estação de trabalho da geração Ampere, sem FP8 em hardware.",
    )),
    ("h100", "H100", "80", "9.0", None, (
        "A data-centre GPU of the Hopper generation, as SXM5 module or PCIe card, with FP8 in hardware. The NVL "
        "variant has 94 GB and is listed apart.",
        "Un GPU de centre de données de la génération Hopper, en module SXM5 ou en carte PCIe, avec le FP8 matériel. "
        "La variante NVL a 94 Go et figure à part.",
        "Uma GPU de data center da geração Hopper, em módulo SXM5 ou placa PCIe, com FP8 em hardware. A variante NVL "
        "tem 94 GB e aparece à parte.",
    )),
    ("a100", "A100", "80", "8.0", None, (
        "A data-centre GPU of the Ampere generation, as SXM4 module or PCIe card, without FP8 in hardware. The variant "
        "with 40 GB is listed apart.",
        "Un GPU de centre de données de la génération Ampere, en module SXM4 ou en carte PCIe, sans FP8 matériel. La "
        "variante à 40 Go figure à part.",
        "Uma GPU de data center da geração Ampere, em módulo SXM4 ou placa PCIe, sem FP8 em hardware. A variante com "
        "40 GB aparece à parte.",
    )),
    ("rtx-pro-6000", "RTX PRO 6000", "96", "12.0", None, (
        "A PCIe GPU of the Blackwell generation, in Workstation, Max-Q and Server editions, with FP8 and FP4 in "
        "hardware. Kernels built for the B200 do not run on it.",
        "Un GPU PCIe de la génération Blackwell, en éditions Workstation, Max-Q et Server, avec le FP8 et le FP4 "
        "matériels. Les noyaux compilés pour le B200 n'y tournent pas.",
        "Uma GPU PCIe da geração Blackwell, nas edições Workstation, Max-Q e Server, com FP8 e FP4 em hardware. "
        "Kernels compilados para a B200 não rodam nela.",
    )),
    ("h200", "H200", "141", "9.0", None, (
        "A data-centre GPU of the Hopper generation, as SXM5 module or NVL card, with FP8 in hardware.",
        "Un GPU de centre de données de la génération Hopper, en module SXM5 ou en carte NVL, avec le FP8 matériel.",
        "Uma GPU de data center da geração Hopper, em módulo SXM5 ou placa NVL, com FP8 em hardware.",
    )),
    ("b200", "B200", "180", "10.0", None, (
        "A data-centre GPU of the Blackwell generation, with FP8 and NVFP4 in hardware.",
        "Un GPU de centre de données de la génération Blackwell, avec le FP8 et le NVFP4 matériels.",
        "Uma GPU de data center da geração Blackwell, com FP8 e NVFP4 em hardware.",
    )),
    ("b300", "B300", "262.5", "10.3", None, (
        "A data-centre GPU of the Blackwell Ultra generation, with FP8 and NVFP4 in hardware. 288 GB is named for the "
        "chip; here it counts 262.5 GB, an eighth of the 2,100 GB of a machine of eight.",
        "Un GPU de centre de données de la génération Blackwell Ultra, avec le FP8 et le NVFP4 matériels. On annonce "
        "288 Go pour la puce ; elle compte ici pour 262,5 Go, un huitième des 2 100 Go d'une machine à huit.",
        "Uma GPU de data center da geração Blackwell Ultra, com FP8 e NVFP4 em hardware. Anunciam-se 288 GB para o "
        "chip; aqui ela conta como 262,5 GB, um oitavo dos 2.100 GB de uma máquina com oito.",
    )),
]

# Listed with their offers, not suggested. key, name, vendor, memory in GB, compute capability
LISTED = [
    ("rtx-5090", "RTX 5090", "nvidia", "32", "12.0"),
    ("rtx-a5000", "RTX A5000", "nvidia", "24", "8.6"),
    ("rtx-a4000", "RTX A4000", "nvidia", "16", "8.6"),
    ("l4", "L4", "nvidia", "24", "8.9"),
    ("l40", "L40", "nvidia", "48", "8.9"),
    ("a10", "A10", "nvidia", "24", "8.6"),
    ("a40", "A40", "nvidia", "48", "8.6"),
    ("a100-40", "A100 40 GB", "nvidia", "40", "8.0"),
    ("h100-nvl", "H100 NVL", "nvidia", "94", "9.0"),
    ("gh200", "GH200", "nvidia", "96", "9.0"),
    ("gb200", "GB200", "nvidia", "186", "10.0"),
    ("gb300", "GB300", "nvidia", "288", "10.3"),
    ("v100-16", "V100 16 GB", "nvidia", "16", "7.0"),
    ("v100-32", "V100 32 GB", "nvidia", "32", "7.0"),
    ("t4", "T4", "nvidia", "16", ""),
    ("mi300x", "MI300X", "amd", "192", ""),
    ("mi325x", "MI325X", "amd", "256", ""),
    ("mi355x", "MI355X", "amd", "288", ""),
]

# name at the providers, key, form factor, memory in GB where the name alone does not tell
ALIASES = [
    ("NVIDIA GeForce RTX 3090", "rtx-3090", "PCIe", None),
    ("RTX3090", "rtx-3090", "PCIe", None),
    ("NVIDIA GeForce RTX 4090", "rtx-4090", "PCIe", None),
    ("RTX4090", "rtx-4090", "PCIe", None),
    ("NVIDIA GeForce RTX 5090", "rtx-5090", "PCIe", None),
    ("RTX5090", "rtx-5090", "PCIe", None),
    ("NVIDIA RTX A4000", "rtx-a4000", "PCIe", None),
    ("A4000", "rtx-a4000", "PCIe", None),
    ("NVIDIA RTX A5000", "rtx-a5000", "PCIe", None),
    ("A5000", "rtx-a5000", "PCIe", None),
    ("NVIDIA RTX A6000", "rtx-a6000", "PCIe", None),
    ("A6000", "rtx-a6000", "PCIe", None),
    ("RTX 6000Ada", "rtx-6000-ada", "PCIe", None),
    ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada", "PCIe", None),
    ("RTX6000Ada", "rtx-6000-ada", "PCIe", None),
    ("RTX PRO 6000 WS", "rtx-pro-6000", "Workstation", None),
    ("RTX PRO 6000 S", "rtx-pro-6000", "Server", None),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000", "Server", None),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000", "Workstation", None),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000", "Max-Q", None),
    ("RTXPRO6000", "rtx-pro-6000", "", None),
    ("NVIDIA L4", "l4", "PCIe", None),
    ("NVIDIA L40", "l40", "PCIe", None),
    ("NVIDIA L40S", "l40s", "PCIe", None),
    ("NVIDIA A40", "a40", "PCIe", None),
    # One name for 40 and 80 GB: without its memory it stays unknown.
    ("A100 SXM4", "a100-40", "SXM4", "40"),
    ("A100 SXM4", "a100", "SXM4", "80"),
    ("A100 PCIE", "a100-40", "PCIe", "40"),
    ("A100 PCIE", "a100", "PCIe", "80"),
    ("A100", "a100-40", "", "40"),
    ("NVIDIA A100-SXM4-80GB", "a100", "SXM4", None),
    ("NVIDIA A100 80GB PCIe", "a100", "PCIe", None),
    ("H100 SXM", "h100", "SXM5", None),
    ("NVIDIA H100 80GB HBM3", "h100", "SXM5", None),
    ("H100 PCIE", "h100", "PCIe", None),
    ("NVIDIA H100 PCIe", "h100", "PCIe", None),
    ("NVIDIA H100 NVL", "h100-nvl", "NVL", None),
    ("H100NVL", "h100-nvl", "NVL", None),
    ("NVIDIA H200", "h200", "SXM5", None),
    ("H200 NVL", "h200", "NVL", None),
    ("NVIDIA H200 NVL", "h200", "NVL", None),
    ("H200NVL", "h200", "NVL", None),
    ("NVIDIA B200", "b200", "SXM6", None),
    ("B300 PC", "b300", "", None),
    ("NVIDIA B300 SXM6 AC", "b300", "SXM6", None),
    ("Tesla V100", "v100-16", "", "16"),
    ("Tesla V100", "v100-32", "", "32"),
    ("V100", "v100-16", "", "16"),
    ("V100", "v100-32", "", "32"),
    ("Tesla V100-PCIE-16GB", "v100-16", "PCIe", None),
    ("Tesla V100-SXM2-16GB", "v100-16", "SXM2", None),
    ("Tesla V100-SXM2-32GB", "v100-32", "SXM2", None),
    ("Tesla T4", "t4", "PCIe", None),
    ("AMD Instinct MI300X OAM", "mi300x", "OAM", None),
]


def load(apps, schema_editor=None):
    """Also for tests that emptied the tables: `load(django.apps.apps)`."""
    gpus = apps.get_model("catalog", "Gpu").objects
    for place, (key, name, memory, capability, reported, (en, fr, pt_br)) in enumerate(SUGGESTED, start=1):
        gpus.update_or_create(
            key=key,
            defaults={
                "name": name,
                "position": place * 10,
                "vendor": "nvidia",
                "memory_gb": Decimal(memory),
                "compute_cap": capability,
                "reported_mib": reported,
                "is_suggested": True,
                "summary": en,
                "summary_en": en,
                "summary_fr": fr,
                "summary_pt_br": pt_br,
            },
        )
    for place, (key, name, vendor, memory, capability) in enumerate(LISTED, start=1):
        facts = {"name": name, "position": 500 + place * 10, "vendor": vendor, "compute_cap": capability}
        gpus.update_or_create(key=key, defaults={**facts, "memory_gb": Decimal(memory)})
    # A host without a GPU: an engine there may take about as much of the machine's memory as a small machine can spare.
    cpu = {"name": "CPU", "position": 9000, "vendor": "", "kind": "cpu", "memory_gb": Decimal(4), "is_listed": False}
    gpus.update_or_create(key="cpu", defaults=cpu)
    _load_aliases(apps, gpus)
    apps.get_model("catalog", "Version").objects.get_or_create(pk=1)


def _load_aliases(apps, gpus):
    aliases = apps.get_model("catalog", "GpuAlias").objects
    by_key = {gpu.key: gpu for gpu in gpus.all()}
    # Names that say a memory of ours, such as "A100 40 GB", are ours alone; the bare ones are what providers write.
    own = [(gpu.name, gpu.key, "", None) for gpu in by_key.values() if gpu.kind == "gpu"]
    for raw_name, key, form_factor, memory in [*own, *ALIASES]:
        aliases.update_or_create(
            provider=None,
            raw_name=raw_name,
            memory_gb=None if memory is None else Decimal(memory),
            defaults={"gpu": by_key[key], "form_factor": form_factor},
        )


class Migration(migrations.Migration):
    dependencies = [("catalog", "0001_initial")]
    operations = [migrations.RunPython(load, migrations.RunPython.noop)]
