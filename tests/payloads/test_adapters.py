"""The payload that reads RDMA adapters: sysfs trees as data, and what is gone by the time it is read."""

import pytest

from payloads import adapters


def tree(folder, ports, *, verbs="uverbs0", name="mlx5_0"):
    """Write an adapter as sysfs has it: port -> file -> text."""
    own = folder / "class" / "infiniband" / name
    (own / "device" / "infiniband_verbs" / verbs).mkdir(parents=True)
    for port, files in ports.items():
        for key, text in files.items():
            (own / "ports" / port).mkdir(parents=True, exist_ok=True)
            (own / "ports" / port / key).write_text(f"{text}\n", encoding="utf-8")
    return own


GOOD = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "link_layer": "InfiniBand",
    "sm_lid": "0x1",
}


def test_an_adapter_as_sysfs_has_it(tmp_path):
    """Each file of each port, and the verbs device; no device file is here."""
    found = adapters.adapter(tree(tmp_path, {"1": GOOD, "2": {**GOOD, "state": "1: DOWN"}}))
    assert (found["name"], found["verbs"], found["file"], found["opens"]) == ("mlx5_0", "uverbs0", "", False)
    assert found["ports"] == [{"port": 1, **GOOD}, {"port": 2, **GOOD, "state": "1: DOWN"}]
    assert found["lost"] == []


def test_files_that_are_gone_are_told(tmp_path):
    """A port whose files vanish while it is read is no port without state."""
    found = adapters.adapter(tree(tmp_path, {"1": {"link_layer": "InfiniBand"}}))
    assert found["ports"] == [{"port": 1, **dict.fromkeys(GOOD), "link_layer": "InfiniBand"}]
    assert found["lost"][0] == "1/state: No such file or directory"
    assert len(found["lost"]) == 4


def test_an_adapter_that_left_has_nothing(tmp_path):
    """Its folder is gone between the list and the look."""
    found = adapters.adapter(tmp_path / "class" / "infiniband" / "mlx5_7")
    assert (found["ports"], found["verbs"]) == ([], "")


@pytest.mark.parametrize(("root", "count"), [("", 0), ("tree", 2)])
def test_all_is_told_line_by_line(tmp_path, monkeypatch, root, count):
    """A machine without adapters says so; a tree is found by the variable."""
    said = []
    monkeypatch.setattr(adapters, "say", lambda event, **told: said.append((event, told)))
    tree(tmp_path / "tree", {"1": GOOD}, name="mlx5_0")
    tree(tmp_path / "tree", {"1": GOOD}, name="mlx5_10", verbs="uverbs1")
    monkeypatch.setenv(adapters.ROOT, str(tmp_path / root if root else tmp_path / "nothing"))
    assert adapters.main() == 0
    assert [event for event, _ in said] == ["adapter"] * count + ["adapters"]
    assert said[-1][1]["count"] == count
