"""Archives know nothing of each other; and what becomes of PREV when the earlier one did not simply succeed."""

from __future__ import annotations

import json
import shutil

import pytest
from typer.testing import CliRunner

from custody.errors import NotFound, Refused, Unavailable
from custody.kernel.model.job import Filter
from custody.workflows.archives.notices import notify
from custody.workflows.archives.port import Archive, read_workflows
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.holds import pause
from custody.workflows.kinds import reconcile_all
from custody.workflows.makers import COMMIT_KIND, QUICK_KIND, TASK_KIND, commit_key, task_key
from rig.svn import Subversion
from workflows.desk import Desk, until

STUCK = "order: strict\ntasks:\n  - name: gate\n    script: exit 1\n  - name: long\n    script: sleep 600\n"


def test_an_archive_that_is_stuck_does_not_hold_up_another(one_desk: Desk, svn: Subversion) -> None:
    """One waits for an operator with long tasks running, one has vanished; the third goes on as if they were not."""
    other, gone = svn.fresh_repository(), svn.fresh_repository()
    Archives(one_desk.store).add("gone", "svn", str(gone.path), "ada")
    Archives(one_desk.store).add("other", "svn", str(other.path), "ada")
    for number in range(2):
        gone.commit("more", {"n.txt": str(number)})
    notify(one_desk.store, "gone", 2)
    gone.path.rename(gone.path.with_name(f"{gone.path.name}-away"))
    for number in range(3):
        one_desk.commit({"_workflows/a.yaml": STUCK, "n.txt": str(number)})
    for number in range(3):
        other.commit("more", {"_workflows/a.yaml": "- name: quickly\n  script: echo done\n", "n.txt": str(number)})
    assert reconcile_all(one_desk.store) == 6, "one that does not answer does not stop the others"
    with one_desk.working(threads=3, grace=0.1):
        for revision in (1, 2, 3):
            key = task_key("other", revision, "commit", "quickly")
            until(lambda key=key: getattr(one_desk.store.queue.by_key(TASK_KIND, key), "ended", "") == "passed")
        until(lambda: one_desk.task(1, "gate").ended == "failed")
        assert one_desk.task(2, "COMMIT").ended is None
        commit = one_desk.store.queue.by_key(COMMIT_KIND, commit_key("gone", 1))
        assert commit is not None
        assert commit.ended is None, "it is tried again when the repository is back"
        one_desk.operator.cancel(one_desk.task(1, "long").id, "enough")
        until(lambda: one_desk.task(1, "long").ended)


BOTH = "- name: first\n  script: {first}\n- name: again\n  depends: [first, PREV]\n  script: echo again\n"
ONLY_FIRST = "- name: first\n  script: echo first\n"


@pytest.mark.parametrize(
    ("what", "second", "told"),
    [
        ("failed", "waiting", "blocked by job"),
        ("cancelled", "waiting", "blocked by job"),
        ("superseded", "done", ""),
        ("skipped", "done", ""),
        ("absent", "done", ""),
    ],
)
def test_how_the_earlier_one_ended_decides_over_three_revisions(
    one_desk: Desk, what: str, second: str, told: str
) -> None:
    """Revision 2 may lack the task; 3 then looks back to 1."""
    text = BOTH.format(first="exit 1" if what == "skipped" else "echo first")
    one_desk.commit({"_workflows/a.yaml": text.replace("echo again", "exit 1") if what == "failed" else text})
    middle = ONLY_FIRST if what == "absent" else BOTH.format(first="echo first")
    one_desk.commit({"_workflows/a.yaml": middle})
    one_desk.commit({"_workflows/a.yaml": BOTH.format(first="echo first"), "n.txt": "3"})
    one_desk.notify(1)
    if what in ("cancelled", "superseded"):
        one_desk.store.queue.hold("kind", TASK_KIND, "ada", "to end it before it runs")
        one_desk.run()
        job = one_desk.task(1, "again")
        if what == "cancelled":
            one_desk.operator.cancel(job.id, "not this one")
        else:
            assert one_desk.store.queue.supersede("proj", "again", 2, by=job.id + 1000) == 0
        one_desk.store.queue.lift("kind", TASK_KIND, "ada")
    one_desk.run()
    one_desk.notify(3)
    one_desk.run()
    follower = one_desk.task(3 if what == "absent" else 2, "again")
    assert ("waiting" if follower.ended is None else follower.state) == second
    reasons = " ".join(reason.text for reason in one_desk.store.queue.why(follower.id))
    assert told in reasons
    if what != "absent":
        assert one_desk.task(1, "again").ended == what
        assert (one_desk.task(3, "again").ended is None) == (second == "waiting"), "and so on down the line"


def test_why_tells_what_a_failed_task_said_last(one_desk: Desk) -> None:
    one_desk.commit({"_workflows/a.yaml": "- name: a\n  script: echo there is no paper left; exit 3\n"})
    one_desk.notify(1)
    one_desk.run()
    (reason,) = one_desk.store.queue.why(one_desk.task(1, "a").id)
    assert reason.text == "it has ended: failed (there is no paper left)"


def test_a_repository_belongs_to_one_archive(one_desk: Desk) -> None:
    """Its hook tells one archive, and whoever retries something has to know where."""
    with pytest.raises(Refused, match="archive proj already") as refused:
        Archives(one_desk.store).add("again", "svn", f"file://{one_desk.repository.path}", "ada")
    assert refused.value.code == "archive.known"
    assert "remove proj" in refused.value.hint
    assert [kept.name for kept in Archives(one_desk.store).list()] == ["proj"]


def test_a_repository_that_was_moved_away_is_told_of_once_and_again_when_it_is_back(one_desk: Desk) -> None:
    one_desk.publish()
    away = one_desk.repository.path.with_name("away")
    archives = Archives(one_desk.store)
    one_desk.repository.path.rename(away)
    for _ in range(3):
        reconcile_all(one_desk.store)
    assert str(one_desk.repository.path) in archives.out_of_reach("proj")
    shown = CliRunner().invoke(app, ["list", "--store", one_desk.store.url]).output
    amiss = f"{one_desk.repository.path}: there is no repository here"
    assert amiss in shown, "whoever lists the archives sees it"
    told = json.loads(CliRunner().invoke(app, ["list", "--json", "--store", one_desk.store.url]).output)
    assert amiss in told[0]["amiss"], "and so does a program"
    away.rename(one_desk.repository.path)
    assert reconcile_all(one_desk.store) == 1
    reconcile_all(one_desk.store)
    assert archives.out_of_reach("proj") == ""
    told = [event.type for event in one_desk.store.records.events("archive/proj")]
    assert told == ["added", "unreachable", "reached"]


def test_a_notice_of_a_revision_that_is_not_there_holds_up_nothing(one_desk: Desk) -> None:
    first = one_desk.publish()
    with pytest.raises(NotFound, match="has no revision 12") as refused:
        one_desk.notify(12)
    assert (refused.value.code, refused.value.hint) == ("archive.revision", "its youngest is 1")
    assert one_desk.notify(first) == 0, "what was there was taken in all the same"
    with pytest.raises(NotFound, match="has no revision 2"):
        one_desk.notify(first + 1)
    one_desk.run()
    assert one_desk.task(first, "build-PDF").ended == "passed"
    reconcile_all(one_desk.store)
    assert Archives(one_desk.store).get("proj").frozen == "", "it did not go back"
    second = one_desk.publish()
    assert one_desk.notify(second) == 1
    until(lambda: (one_desk.run(), one_desk.task(second, "build-PDF").ended == "passed")[1])


def test_a_notice_while_the_repository_does_not_answer_is_refused_and_nothing_is_missed(one_desk: Desk) -> None:
    """Nothing is taken in on a caller's word; whoever looks when it is back finds what the notice told of."""
    first = one_desk.publish()
    away = one_desk.repository.path.with_name("away")
    one_desk.repository.path.rename(away)
    for revision in (first, 40, 2**53):
        with pytest.raises(Unavailable, match="there is no repository here"):
            one_desk.notify(revision)
    assert Archives(one_desk.store).get("proj").last == 0
    away.rename(one_desk.repository.path)
    assert reconcile_all(one_desk.store) == 1
    one_desk.run()
    assert one_desk.task(first, "build-PDF").ended == "passed"


def test_a_name_stays_with_its_repository(one_desk: Desk, svn: Subversion) -> None:
    """The revisions of another would be taken for those that are on record, and not run."""
    first = one_desk.publish()
    one_desk.notify(first)
    archives = Archives(one_desk.store)
    archives.drop("proj", "ada")
    with pytest.raises(Refused, match="was another repository before") as refused:
        archives.add("proj", "svn", str(svn.fresh_repository().path), "ada")
    assert refused.value.code == "archive.name"
    again = archives.add("proj", "svn", str(one_desk.repository.path), "ada")
    second = one_desk.publish()
    reconcile_all(one_desk.store)
    assert (again.name, archives.get("proj").last) == ("proj", second)
    assert one_desk.task(first, "COMMIT").id < one_desk.task(second, "COMMIT").id


def test_a_repository_that_went_back_is_frozen_and_says_so(one_desk: Desk) -> None:
    """Restored from an older copy: what comes next would have numbers that were given before."""
    one_desk.commit({"a.txt": "a"})
    path = one_desk.repository.path
    shutil.copytree(path, path.with_name("older"))
    one_desk.notify(one_desk.commit({"a.txt": "b"}))
    one_desk.run()
    shutil.rmtree(path)
    path.with_name("older").rename(path)
    reconcile_all(one_desk.store)
    assert "went back to revision 1; 2 was there before" in Archives(one_desk.store).get("proj").frozen
    assert one_desk.notify(one_desk.commit({"a.txt": "c"}) + 1) == 0, "nothing is taken in any more"


def test_a_paused_archive_starts_nothing_in_any_lane_until_it_goes_on(one_desk: Desk, svn: Subversion) -> None:
    text = "- name: slow\n  lane: pdf\n  script: echo done\n- name: fast\n  lane: quick\n  script: echo done\n"
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": text}))
    one_desk.worker().run_until_idle(1)  # planned, not run
    other = svn.fresh_repository()
    Archives(one_desk.store).add("other", "svn", str(other.path), "ada")
    url = ["--store", one_desk.store.url]
    assert "is paused" in CliRunner().invoke(app, ["hold", "proj", "--why", "the disk is changed", *url]).output
    one_desk.notify(one_desk.commit({"n.txt": "n"}))
    other.commit("more", {"_workflows/a.yaml": "- name: a\n  script: echo done\n"})
    reconcile_all(one_desk.store)
    one_desk.run()
    jobs = {
        (job.collection, job.task, job.position): job for job in one_desk.store.queue.every(Filter(kind="workflow/*"))
    }
    ends = {name: job.ended for name, job in jobs.items()}
    assert ends == {
        ("proj", "COMMIT", 1): "passed",
        ("proj", "slow", 1): None,
        ("proj", "fast", 1): None,
        ("proj", "COMMIT", 2): None,
        ("other", "COMMIT", 1): "passed",
        ("other", "a", 1): "passed",
    }
    (reason,) = one_desk.store.queue.why(jobs["proj", "slow", 1].id)
    assert "the disk is changed" in reason.text
    assert "goes on" in CliRunner().invoke(app, ["release", "proj", *url]).output
    assert "nothing to do" in CliRunner().invoke(app, ["release", "proj", *url]).output
    one_desk.run()
    jobs = {
        (job.collection, job.task, job.position): job for job in one_desk.store.queue.every(Filter(kind="workflow/*"))
    }
    assert {job.ended for job in jobs.values()} == {"passed"}


def test_an_archive_that_calls_all_its_tasks_quick_does_not_keep_others_from_being_planned(
    one_desk: Desk, svn: Subversion
) -> None:
    text = "".join(f"- {{name: s{number}, lane: quick, script: sleep 600}}\n" for number in range(3))
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": text}))
    other = svn.fresh_repository()
    Archives(one_desk.store).add("other", "svn", str(other.path), "ada")
    other.commit("more", {"n.txt": "1"})
    with one_desk.working(threads=2, grace=0.1):
        quick = Filter(kind=QUICK_KIND)
        until(lambda: any(job.holder for job in one_desk.store.queue.every(quick)))
        reconcile_all(one_desk.store)
        until(lambda: getattr(one_desk.store.queue.by_key(COMMIT_KIND, commit_key("other", 1)), "ended", None), 60)
        for job in one_desk.store.queue.every(quick):
            one_desk.operator.cancel(job.id, "enough")
        until(lambda: all(job.ended for job in one_desk.store.queue.every(quick)))


def test_an_archive_that_is_paused_while_a_revision_is_being_planned_starts_none_of_its_tasks(
    one_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in lanes that nobody could know of when it was paused."""
    text = "- {name: slow, lane: pdf, script: echo done}\n"
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": text}))

    def pause_meanwhile(archive: Archive, revision: int) -> tuple[dict[str, bytes], list[str]]:
        pause(one_desk.store, "proj", "ada", "the disk is changed")
        return read_workflows(archive, revision)

    monkeypatch.setattr("custody.workflows.plan.job.read_workflows", pause_meanwhile)
    one_desk.run()
    slow = one_desk.task(1, "slow")
    assert slow.ended is None
    assert "the disk is changed" in one_desk.store.queue.why(slow.id)[0].text
