"""Options, their twins, their sources, and what is told when they are wrong."""

import types

import pytest

from pytest_gpucluster import provider

pytest_plugins = ["pytester"]

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: u, user: {}}]
contexts: [{name: prod-a, context: {cluster: c, user: u}}]
"""

PROFILE = """
connection: {kubeconfig: kubeconfig, context: prod-a}
scheduler: volcano
queue: training
gpu_resource: nvidia.com/gpu
gpus_per_node: 8
"""


@pytest.fixture
def site(project):
    """A project with a complete profile `prod-a` in clusters/."""
    folder = project.pytester.mkdir("clusters")
    (folder / "prod-a.yaml").write_text(PROFILE, encoding="utf-8")
    (folder / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    project.rows("GANG-001 calm passes")
    return project


def test_help_names_each_option_with_its_twins_and_survives_a_broken_profile(project, monkeypatch):
    """`--help` works whatever is told, and names ini and environment twins."""
    monkeypatch.setenv("GPUCLUSTER_KEEP", "perhaps")
    monkeypatch.setenv("GPUCLUSTER_CLUSTER", "nonesuch")
    result = project.run("--help")
    assert result.ret == 0
    text = " ".join(result.stdout.str().split())
    for flag in ("--cluster=NAME", "--gpucluster-profiles=DIR", "--gpucluster-plan", "--gpucluster-defect=NAME",
                 "--gpucluster-keep", "--gpucluster-reuse=RUN", "--gpucluster-report-dir=DIR"):  # fmt: skip
        assert flag in text
    assert "(ini gpucluster_report_dir, environment GPUCLUSTER_REPORT_DIR)" in text


THEIRS = """
import doubles

doubles.install()

def pytest_addoption(parser):
    parser.addoption("--cluster", default="theirs", help="theirs")
"""


def test_where_the_name_is_taken_the_long_one_names_the_cluster(site):
    """Another project's `--cluster` is never taken for ours: the run says which option to use."""
    (site.pytester.path / "conftest.py").write_text(THEIRS, encoding="utf-8")
    result = site.run("--cluster=prod-a")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "gpucluster: 1 requirement on cluster embedded (default)",
            "gpucluster: --cluster is an option of another plugin here; name the cluster with --gpucluster-cluster",
        ]
    )
    result = site.run("--cluster=theirs", "--gpucluster-cluster=prod-a")
    result.stdout.fnmatch_lines(["gpucluster: 1 requirement on cluster prod-a (option --gpucluster-cluster)"])


def test_the_name_of_a_cluster_is_no_path(site):
    """In `--cluster NAME` the name is no test folder: the conftest files of `testpaths` are still loaded first."""
    folder = site.pytester.mkdir("checks")
    for name in ("conftest.py", "test_rows.py"):
        (site.pytester.path / name).rename(folder / name)
    conftest = folder / "conftest.py"
    conftest.write_text(
        conftest.read_text(encoding="utf-8")
        + "\n\ndef pytest_addoption(parser):\n    parser.addoption('--special', action='store_true')\n",
        encoding="utf-8",
    )
    path = site.pytester.path / "pytest.toml"
    path.write_text(
        path.read_text(encoding="utf-8") + 'testpaths = ["checks"]\npythonpath = ["."]\n', encoding="utf-8"
    )
    result = site.run("--cluster", "prod-a", "--special")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["gpucluster: 1 requirement on cluster prod-a (option --cluster)"])


def test_no_variable_of_an_option_is_taken_for_a_leaf_of_the_profile():
    """The profile leaves the twins of options alone, all of them."""
    from pytest_gpucluster.hooks import table
    from pytest_gpucluster.profile import layers

    twins = {option.env.removeprefix(layers.ENV_PREFIX) for option in table.OPTIONS if option.env}
    assert twins == set(layers.OPTION_TWINS)


def test_markers_lists_areas_and_levels_with_their_meaning(project):
    """`--markers` is the reference of areas and levels."""
    project.run("--markers").stdout.fnmatch_lines_random(
        ["@pytest.mark.gang: gpucluster area: *", "@pytest.mark.must: gpucluster level: *"]
    )


def test_later_layers_win_and_the_header_names_the_source(site, monkeypatch):
    """Environment gives way to ini, ini to the command line; each value is shown with its source."""
    monkeypatch.setenv("GPUCLUSTER_CLUSTER", "from-env")
    monkeypatch.setenv("GPUCLUSTER_REPORT_DIR", "env-reports")
    monkeypatch.setenv("GPUCLUSTER_QUEUE", "env-queue")
    monkeypatch.setenv("GPUCLUSTER_BUDGETS__BIND", "7")
    path = site.pytester.path / "pytest.toml"
    path.write_text(
        path.read_text(encoding="utf-8") + 'gpucluster_cluster = "prod-a"\ngpucluster_keep = true\n'
        'gpucluster_set = ["budgets.bind=8", "budgets.run=9"]\n',
        encoding="utf-8",
    )
    result = site.run("--gpucluster-set", "budgets.run=10")
    result.stdout.fnmatch_lines_random(
        [
            "gpucluster: cluster = prod-a (ini gpucluster_cluster)",
            "gpucluster: report_dir = *env-reports (environment GPUCLUSTER_REPORT_DIR)",
            "gpucluster: keep = true (ini gpucluster_keep)",
            "gpucluster: 1 requirement on cluster prod-a (ini gpucluster_cluster)",
            "gpucluster: queue = env-queue (environment GPUCLUSTER_QUEUE)",
            "gpucluster: budgets.bind = 8.0 (ini gpucluster_set)",
            "gpucluster: budgets.run = 10.0 (option --gpucluster-set)",
        ]
    )
    # What was kept on purpose is left on the cluster all the same: no yes.
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["answer    Undecided: the run left something on the cluster: everything that main made: kept on *"]
    )
    assert (site.pytester.path / "env-reports" / "latest" / "report.json").exists()
    site.run("--cluster=embedded", "--gpucluster-report-dir=cli").stdout.fnmatch_lines(
        ["gpucluster: cluster = embedded (option --cluster)"]
    )
    assert (site.pytester.path / "cli" / "latest").is_symlink()


def test_a_profile_is_found_in_each_documented_place(site, monkeypatch):
    """Profiles are found in clusters/, in $GPUCLUSTER_PROFILES, in --gpucluster-profiles and beside the ini file."""
    clusters = site.pytester.path / "clusters"
    assert site.run("--cluster=prod-a").ret == 0
    elsewhere = site.pytester.mkdir("elsewhere")
    clusters.rename(elsewhere / "profiles")
    assert site.run("--cluster=prod-a").ret == 4
    assert site.run("--cluster=prod-a", "--gpucluster-profiles=elsewhere/profiles").ret == 0
    monkeypatch.setenv("GPUCLUSTER_PROFILES", f"nowhere:{elsewhere / 'profiles'}")
    assert site.run("--cluster=prod-a").ret == 0
    monkeypatch.delenv("GPUCLUSTER_PROFILES")
    for file in (elsewhere / "profiles").iterdir():
        file.rename(site.pytester.path / file.name)
    assert site.run("--cluster=prod-a").ret == 0


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (
            ["--cluster=prod-b"],
            "unknown cluster 'prod-b'; did you mean 'prod-a'? (allowed: embedded, host, kind, prod-a)*",
        ),
        (
            ["--cluster=prod-a", "--gpucluster-kind-image=x"],
            "option --gpucluster-kind-image: only for a kind cluster (--cluster=kind), this one is 'existing'",
        ),
        (["--cluster=kind", "--gpucluster-kind-addons=nowhere"], "*nowhere is not a folder"),
        (["--cluster=kind", "--gpucluster-kind-addons=."], "*has none of the folders kueue, volcano"),
        (
            ["--cluster=prod-a", "--gpucluster-defect=gang.binds-partially"],
            "*planted in the embedded cluster only*",
        ),
        (
            ["--gpucluster-defect=node.slow-strat"],
            "unknown defect 'node.slow-strat'; did you mean 'node.slow-start'?*",
        ),
        (["--gpucluster-reuse=nowhere"], "--gpucluster-reuse: *nowhere is not the folder of a run*"),
        (
            ["--gpucluster-report-dir=test_rows.py/x"],
            "option --gpucluster-report-dir: report folder * is not a folder",
        ),
        (
            ["--gpucluster-report-dir=/proc/x"],
            "option --gpucluster-report-dir: report folder /proc/x cannot be made: *",
        ),
        (["--gpucluster-set=queue"], "option --gpucluster-set = 'queue': expected PATH=VALUE*"),
        (["--gpucluster-set=budgets.bnd=3"], "*unknown key; did you mean 'bind'?*"),
    ],
)
def test_usage_errors_are_one_line_and_exit_with_4(site, args, told):
    """A wrong option ends the run before anything is touched, in one line with what is allowed."""
    result = site.run(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.stderr.lines if line.strip()]
    assert len(lines) == 1
    result.stderr.fnmatch_lines([f"ERROR: *{told}"])
    assert site.log == []
    assert not (site.pytester.path / "reports").exists()


def test_a_kubeconfig_that_is_missing_is_a_usage_error(site):
    """The file that a profile names must exist, and the line says where it was named."""
    (site.pytester.path / "clusters" / "kubeconfig").unlink()
    result = site.run("--cluster=prod-a")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *clusters/prod-a.yaml:2: kubeconfig file *clusters/kubeconfig does not exist"]
    )


def test_a_plan_does_without_the_cluster_and_says_so(site):
    """It makes nothing, so whoever writes a profile far from the cluster sees what it would do."""
    (site.pytester.path / "clusters" / "kubeconfig").unlink()
    result = site.run("--cluster=prod-a", "--gpucluster-plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "cluster prod-a (existing): 1 requirement from 1 scenario*",
            "warning       planned from the profile alone: *prod-a.yaml:2: kubeconfig file * does not exist",
        ]
    )
    assert site.log == []


def test_a_broken_profile_is_a_usage_error_with_file_path_value_and_allowed(site):
    """A wrong value is told with file and line, path, value and what is allowed."""
    path = site.pytester.path / "clusters" / "prod-a.yaml"
    path.write_text(PROFILE + "nodes: reel\n", encoding="utf-8")
    result = site.run("--cluster=prod-a")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: *prod-a.yaml:7: nodes = 'reel': is not known; did you mean 'real'? (allowed: process, real, sim*"
        ]
    )


def test_keep_takes_one_scenario(project):
    """What one scenario leaves would falsify the next, so that only one can be kept."""
    project.rows("GANG-001 calm passes", "GANG-002 greedy passes")
    result = project.run("--gpucluster-keep")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: option --gpucluster-keep: keeps*2 are selected (calm, greedy)*"])
    result = project.run("--gpucluster-keep", "-k", "GANG-001")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["kept      nothing: the embedded cluster ends with its run"])


@pytest.mark.parametrize("made", [True, False])
def test_a_named_kind_cluster_is_kept_only_where_it_was_made(tmp_path, made):
    """A creation that failed leaves nothing, and says nothing of what stays."""
    profile = types.SimpleNamespace(provider="kind", kind=types.SimpleNamespace(name="mine"))
    loaded = types.SimpleNamespace(profile=profile)
    if made:
        (tmp_path / "cluster.json").write_text("{}")
    told = provider.of(loaded).kept(loaded, tmp_path, asked=False)
    assert told == ("the kind cluster mine; remove it with: kind delete cluster --name mine" if made else "")


def test_a_broken_flag_in_the_environment_is_a_usage_error(project, monkeypatch):
    """A flag's variable takes flags only."""
    monkeypatch.setenv("GPUCLUSTER_KEEP", "perhaps")
    project.rows("GANG-001 calm passes")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: environment GPUCLUSTER_KEEP = 'perhaps': must be a flag*"])


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("--gpucluster-gte", "--gpucluster-gate"),
        ("--gpucluster-max-gpu-second=600", "--gpucluster-max-gpu-seconds"),
        ("--gpucluster-clustr=x", "--gpucluster-cluster"),
    ],
)
def test_a_misspelt_option_is_one_line_with_the_nearest(project, word, near):
    """Pytest alone would say that an argument is not recognized."""
    project.rows("GANG-001 calm passes")
    result = project.run(word)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {word.partition('=')[0]}: unknown option; did you mean '{near}'?*"])


def test_what_stands_behind_two_dashes_is_no_option(project):
    """A path may be called as it likes."""
    project.rows("GANG-001 calm passes")
    result = project.run("--", "--gpucluster-gte")
    assert "unknown option" not in str(result.stderr)


def test_a_variable_that_is_almost_ours_is_told_in_the_head_of_any_run(project, monkeypatch):
    """Without a cluster that is named there is nothing else that could tell it; a run of other tests goes on."""
    monkeypatch.setenv("GPUCLUSTER_CLUSTR", "prod-a")
    monkeypatch.setenv("GPUCLUSTER_BUDGETS__BIND", "3")
    project.write(test_own="def test_own(): pass\n")
    result = project.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*GPUCLUSTER_CLUSTR is no variable of the plugin; did you mean 'GPUCLUSTER_CLUSTER'?"]
    )
    assert "BUDGETS" not in result.stdout.str()


@pytest.mark.parametrize(
    "name", ["GPUCLUSTER_CLUSTR", "GPU_CLUSTER_CLUSTER", "gpucluster_cluster", "GPUCLUSTER_GATEE"]
)
@pytest.mark.parametrize("quiet", [[], ["-q"], ["-qq"]], ids=["", "q", "qq"])
def test_a_variable_that_is_almost_ours_is_told_in_a_quiet_run_too(project, monkeypatch, name, quiet):
    """Whatever it begins with, and whether pytest prints its head or not; once."""
    monkeypatch.setenv(name, "1")
    project.write(test_own="def test_own(): pass\n")
    result = project.run(*quiet)
    assert result.ret == 0
    assert result.stdout.str().count(f"{name} is no variable of the plugin; did you mean 'GPUCLUSTER_") == 1


@pytest.mark.parametrize(
    "key", ["gpucluster_gatee", "GPUCLUSTER_GATE", "gclster_report_dir", "gpu-cluster-gate"]
)
def test_a_setting_that_is_almost_ours_is_refused_in_a_quiet_run_too(project, key):
    """In capitals, or with its beginning misspelt."""
    project.write(test_own="def test_own(): pass\n")
    path = project.pytester.path / "pytest.toml"
    path.write_text(f"[pytest]\ngpucluster_suites = false\n{key} = true\n", encoding="utf-8")
    result = project.run("-q")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: pytest.toml: {key}: unknown setting; did you mean 'gpucluster_*"])


UNUSED = (
    "gpucluster: no requirement was collected, so {} had nothing to act on: name a cluster (--cluster=NAME)*"
)


@pytest.mark.parametrize(
    "given", ["--gpucluster-plan", "--gpucluster-gate", "--gpucluster-keep", "--gpucluster-policy=weekly",
              "--gpucluster-defect=x", "--gpucluster-set=budgets.bind=3", "--gpucluster-max-nodes=2"]
)  # fmt: skip
@pytest.mark.parametrize("quiet", [[], ["-q"]], ids=["", "q"])
def test_an_option_that_found_nothing_to_act_on_says_so(project, given, quiet):
    """Without a cluster and a requirement nothing is collected, and pytest alone would leave it at that."""
    result = project.run(given, *quiet)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines([UNUSED.format(given.partition("=")[0])])


def test_tests_of_others_are_not_told_of_settings_that_change_nothing(project):
    """Some stand in `addopts`; whoever asks for a gate waits for its answer."""
    project.write(test_own="def test_own(): pass\n")
    assert "nothing to act on" not in project.run("--gpucluster-report-dir=x").stdout.str()
    project.run("--gpucluster-gate").stdout.fnmatch_lines([UNUSED.format("--gpucluster-gate")])
