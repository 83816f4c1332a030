"""What the machine's user is given of our Python and packages, without opening anything of ours."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from arrakis.demo import software
from arrakis.embedded.clone import machine_uid, reachable_by_others


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_all_may_read_is_linked(tmp_path: Path) -> None:
    source, target = tmp_path / "module.py", tmp_path / "there" / "module.py"
    source.write_text("x = 1\n")
    source.chmod(0o644)
    software._put(source, target)
    assert target.samefile(source)


@pytest.mark.parametrize(("before", "after"), [(0o600, 0o644), (0o640, 0o644), (0o700, 0o755), (0o664, 0o644)])
def test_what_is_private_is_copied_and_stays_private(tmp_path: Path, before: int, after: int) -> None:
    source, target = tmp_path / "module.py", tmp_path / "copy.py"
    source.write_text("x = 1\n")
    source.chmod(before)
    software._put(source, target)
    assert (mode(source), mode(target)) == (before, after)
    assert not target.samefile(source) and target.read_text() == "x = 1\n"


def test_a_copy_that_fails_leaves_nothing_to_be_taken_for_one(tmp_path: Path) -> None:
    def fill(draft: Path) -> None:
        (draft / "half").write_text("")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        software._kept(tmp_path / "package", fill)
    assert list(tmp_path.iterdir()) == []


def test_a_copy_is_made_once(tmp_path: Path) -> None:
    made = []

    def fill(draft: Path) -> None:
        made.append(draft)
        (draft / "module.py").touch()

    assert software._kept(tmp_path / "package", fill) == software._kept(tmp_path / "package", fill)
    assert len(made) == 1 and (tmp_path / "package" / "module.py").exists()


def test_who_ends_second_takes_the_firsts(tmp_path: Path) -> None:
    def fill(draft: Path) -> None:
        (tmp_path / "package").mkdir()
        (tmp_path / "package" / "first").touch()
        (draft / "second").touch()

    kept = software._kept(tmp_path / "package", fill)
    assert [path.name for path in kept.iterdir()] == ["first"]
    assert [path.name for path in tmp_path.iterdir()] == ["package"]


@pytest.mark.services
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_all_that_is_given_is_reachable_and_not_the_users_to_change() -> None:
    uid = machine_uid()
    given = software.for_user(uid)
    for path in (given.python, given.launcher, *(Path(path) for path in given.paths)):
        assert reachable_by_others(path)
        assert path.stat().st_uid != uid and not mode(path) & 0o022
    assert software.for_user(uid) == given
