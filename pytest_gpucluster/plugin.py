"""Entry point of the plugin: gathers the hooks of the hook modules and imports nothing heavy.

It is loaded in every pytest run of an environment. Until a requirement is collected it registers options and
markers and does nothing else. The hooks are gathered here and not named in `pytest_plugins`, since pytest searches
the metadata of all installed packages once for each name in that list.
"""

from pytest_gpucluster.fixtures import (
    _gpucluster_stage,
    gpu_cluster,
    gpu_namespace,
    run_payload,
    scenario_evidence,
    settle,
    stage,
)
from pytest_gpucluster.hooks.collection import (
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_deselected,
    pytest_itemcollected,
    pytest_make_collect_report,
    pytest_report_collectionfinish,
)
from pytest_gpucluster.hooks.interrupted import pytest_keyboard_interrupt
from pytest_gpucluster.hooks.options import (
    pytest_addoption,
    pytest_configure,
    pytest_load_initial_conftests,
    pytest_report_header,
)
from pytest_gpucluster.hooks.reporting import (
    pytest_html_results_summary,
    pytest_html_results_table_header,
    pytest_html_results_table_row,
    pytest_report_teststatus,
    pytest_runtest_makereport,
    pytest_terminal_summary,
)
from pytest_gpucluster.hooks.runtest import (
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_runtestloop,
    pytest_sessionfinish,
    pytest_unconfigure,
)

__all__ = [
    "_gpucluster_stage",
    "gpu_cluster",
    "gpu_namespace",
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_deselected",
    "pytest_html_results_summary",
    "pytest_html_results_table_header",
    "pytest_html_results_table_row",
    "pytest_itemcollected",
    "pytest_keyboard_interrupt",
    "pytest_load_initial_conftests",
    "pytest_make_collect_report",
    "pytest_report_collectionfinish",
    "pytest_report_header",
    "pytest_report_teststatus",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_runtestloop",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_unconfigure",
    "run_payload",
    "scenario_evidence",
    "settle",
    "stage",
]
