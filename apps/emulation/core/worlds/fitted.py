"""Parameters of the `measured` world. Written by `./dev manage fit_world --data DIR`.

A comment names the measurements that the values below it were fitted to (docs/emulation.md).
`DATA` has the SHA-256 of every file.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apps.emulation.core.worlds.parameters import (
    Heterogeneity,
    LogNormal,
    Parameters,
    Scaling,
    Sensitivity,
    ServerSpeed,
    Services,
)

FITTED: Final = Parameters(
    # scout_multinode, ibm_multicloud, sparecores
    heterogeneity=MappingProxyType(
        {
            "analytics": Heterogeneity((0.2692, 0.1179, 0.06695), 0.1211),
            "batch": Heterogeneity((0.1423, 0.1251, 0.1132), 0.173),
            "single_node": Heterogeneity((0.4055, 0.1488, 0.2014), 0.2012),
            "latency_critical": Heterogeneity((0.4055, 0.1488, 0.2014), 0.2012),
        }
    ),
    # cca_ibench
    scale_up=Scaling(LogNormal(-2.17, 0.852), LogNormal(-9.0, 1.0)),
    # scout_multinode, c3o
    scale_out=Scaling(LogNormal(-2.921, 2.571), LogNormal(-9.0, 1.0)),
    # cca_ibench
    sensitivity=Sensitivity((-1.539, -1.671, -1.126, -1.783, -0.683, -1.437), 0.7129, 0.7662),
    # actimanager, gavel
    strength=MappingProxyType(
        {
            "analytics": 0.6696,
            "batch": -0.7667,
            "single_node": 0.6696,
            "latency_critical": 0.6696,
        }
    ),
    # azure_vm_noise
    noise=LogNormal(-4.664, 2.373),
    # azure_vm_noise
    servers=ServerSpeed(0.02708, 2.306),
    # google_2011
    tasks=LogNormal(-1.942, 0.9812),
    # cca_ibench
    services=Services((-0.6707, -2.176, -0.6749, -2.154, -1.801, -3.368), 1.0),
)
DATA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "scout_multinode/runs.csv.gz": (
            "f38e648943d6440dead9c51c25fbc6704e77249c3a5b3e45edf8116c875bc8ea"
        ),
        "ibm_multicloud/runs.csv.gz": (
            "864a647d95780bdb9140fe4aff628b9915efa29937a1cb9b27b7f81ec957aa23"
        ),
        "sparecores/benchmark_by_machine.csv.gz": (
            "0a16f6383a950ecacd075b11ab0e8ce2d9c4110f333eddb8e4a616032c77a1e7"
        ),
        "sparecores/machines.csv.gz": (
            "5932758cb69b7c997e8983fd045334b4f51730a284f346d41485b9a17181d417"
        ),
        "cca_ibench/parsec_threads.csv.gz": (
            "0fc3a5383c2cbcfa4312a5524c6418fdf6ed3932fa91ef4ac104a9f54ead480f"
        ),
        "cca_ibench/parsec_interference.csv.gz": (
            "4774b34a505ee5cea058b60e8abcd856c0f961f4f49e026132fa96003f86f1f1"
        ),
        "cca_ibench/memcached_interference.csv.gz": (
            "67cf3039bce5f933896316ab6f5b163d418f826e9ca2ea05b937505bcff7e5cd"
        ),
        "c3o/sort.tsv.gz": ("0fb8462b2f371d34f469494203be46eabe93b4b864e612b102434b3c26759074"),
        "c3o/grep.tsv.gz": ("7065fc028d2943dc31c6095532570dae3740702f985b1293e91b58e08b8838a5"),
        "c3o/kmeans.tsv.gz": ("9a4d44b3d89d3edbcbd6db70895d5549299c5e789975812bd8bb8a342c9d0dd9"),
        "c3o/sgd.tsv.gz": ("01ebb166d3a83607d58181f7781439f273d2455ee55d8286dc42e744cf512a02"),
        "c3o/pagerank.tsv.gz": (
            "2b85dba01b7a62f5940261f34b4964ee5f2a5781cd3f0ca07aee44e280f11c48"
        ),
        "actimanager/noise_sensitivity.csv.gz": (
            "453734c32de97f0139fb4d1d2fb2ae2bdda5f718a783de8a3cd1e99fae8c0e9d"
        ),
        "gavel/pairs.csv.gz": ("25ee6b4955b18375a9553809431170cddd8a3b4d6a436b170dcac819a735552b"),
        "azure_vm_noise/monthly.csv.gz": (
            "1c2948606df8a1eff4faa7c90d9f1e8a60a9f83a9afe345511f522da09da9c91"
        ),
        "google_2011/task_events.csv.gz": (
            "78649a3f024d42ee0ae8f76e3df066ad1d04957f50fdb2741360f1dd51d7a7d5"
        ),
    }
)
