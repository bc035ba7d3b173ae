"""Workflow files are read exactly, and every fault in them is told with its place."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custody.workflows.definition.definition import digest, is_workflow_file, lint, read
from custody.workflows.definition.task import Cancels, Depends, Schedule, Task, Workflow

YAML, JSON = "_workflows/main.yaml", "_workflows/main.json"


def faults(text: str, file: str = YAML) -> list[str]:
    return [str(fault).removeprefix(f"{file}:") for fault in read({file: text.encode()}).faults]


def one(text: str, file: str = YAML) -> Workflow:
    found = read({file: text.encode()})
    assert found.faults == ()
    (workflow,) = found.workflows
    return workflow


def task(text: str) -> Task:
    """A single task, written as the fields of a list item."""
    lines = "\n".join("  " + line for line in f"name: x\n{text}".splitlines())
    (found,) = one("-" + lines[1:]).tasks
    return found


def task_faults(text: str) -> list[str]:
    lines = "\n".join("  " + line for line in f"name: x\n{text}".splitlines())
    return faults("-" + lines[1:] + "\n")


def test_the_bare_list_of_the_seed_is_valid_and_means_commit(seed_workflow: bytes) -> None:
    found = read({YAML: seed_workflow})
    assert found.faults == ()
    (workflow,) = found.workflows
    assert (workflow.when, workflow.name, workflow.strict) == ("commit", "main", False)
    assert [one.name for one in workflow.tasks] == ["indexing", "build-PDF"]
    assert workflow.tasks[0].depends == (Depends("indexing", earlier=True),)
    assert workflow.tasks[1].depends == (Depends("indexing", earlier=False),)
    assert workflow.tasks[1].cancels == (Cancels("build-PDF", earlier=True),)


def test_every_field_of_a_task_is_read() -> None:
    found = task(
        """
depends: [PREV, PREV:other, COMMIT, {task: PREV:third, if: finished}]
cancels: [{task: PREV:fourth, max_in_a_row: 3, max_age: 2h}]
image: registry.example.org:5000/pandoc/latex:3.1@sha256:%s
script: |
  echo one
  echo two
shell: bash
env: {LANG: C, COUNT: 010, FLAG: yes}
network: true
timeout: 1h30m
grace: 5s
retries: 2
lane: heavy
blocking: false
outputs: [dist/*.pdf, log.txt]
output_limit: 8MiB
reentrant: true
secrets: token
"""
        % ("0" * 64)
    )
    assert found == Task(
        name="x",
        depends=(
            Depends("x", True),
            Depends("other", True),
            Depends("COMMIT", False),
            Depends("third", True, "finished"),
        ),
        cancels=(Cancels("fourth", True, 3, 7200),),
        image="registry.example.org:5000/pandoc/latex:3.1@sha256:" + "0" * 64,
        script="echo one\necho two\n",
        shell="bash",
        env=(("LANG", "C"), ("COUNT", "010"), ("FLAG", "yes")),
        network=True,
        timeout=5400,
        grace=5,
        retries=2,
        lane="heavy",
        blocking=False,
        outputs=("dist/*.pdf", "log.txt"),
        output_limit=8 * 1024 * 1024,
        reentrant=True,
        secrets=("token",),
    )
    assert found.argv == ("bash", "-eu", "-o", "pipefail")


@pytest.mark.parametrize(
    ("written", "argv"),
    [
        ("command: make all", ("make", "all")),
        ("command: grep 'two words' file", ("grep", "two words", "file")),
        ("command: [grep, two words, $HOME]", ("grep", "two words", "$HOME")),
        ("command: echo $(id); rm -rf /", ("echo", "$(id);", "rm", "-rf", "/")),
        ("script: exit", ("sh", "-eu")),
        ("blocking: true", ()),
    ],
)
def test_a_command_is_words_and_a_script_has_a_shell(written: str, argv: tuple[str, ...]) -> None:
    assert task(written).argv == argv


def test_a_mapping_says_when_and_in_which_order() -> None:
    found = one("when: commit\norder: strict\nlines: [trunk, branches/*]\ntasks:\n- name: a\n")
    assert (found.when, found.strict, found.lines) == ("commit", True, ("trunk", "branches/*"))
    assert one("when: manual\ntasks:\n- name: a\n").when == "manual"
    nightly = one("when: schedule\ncron: 30 2 * * MON-FRI\ntimezone: Europe/Copenhagen\ntasks:\n- name: a\n")
    assert nightly.schedule == Schedule("30 2 * * MON-FRI", "Europe/Copenhagen", "skip")


def test_the_commit_itself_may_wait_for_earlier_tasks() -> None:
    found = one("- name: COMMIT\n  depends: [PREV:index, {task: PREV:pdf, if: finished}, PREV]\n- name: index\n")
    assert found.commit_depends == (Depends("index", True), Depends("pdf", True, "finished"))
    assert [one.name for one in found.tasks] == ["index"]


def test_yaml_and_json_say_the_same() -> None:
    written = {"name": "a", "retries": 2, "network": True, "env": {"E": "😀"}, "command": ["x", "é\n"]}
    as_json = one(json.dumps({"order": "strict", "tasks": [written | {"depends": ["PREV"]}]}, indent=2), JSON)
    as_yaml = one(
        "order: strict\ntasks:\n- {name: a, retries: 2, network: true, env: {E: 😀}, "
        'command: [x, "é\\n"], depends: [PREV]}\n'
    )
    assert as_json.tasks == as_yaml.tasks
    assert as_json.strict == as_yaml.strict


FAULTS = [
    # Text that cannot be read.
    ("", YAML, ["1:1: the file is empty (a list of tasks, or a table with 'tasks')"]),
    ("# only a comment\n", YAML, ["1:1: the file is empty (a list of tasks, or a table with 'tasks')"]),
    ("just words", YAML, ["1:1: a list of tasks was expected (or a table with 'tasks')"]),
    ("- name: a\n  depends: [b\n", YAML, ["3:1: not valid YAML: expected ',' or ']', but got '<stream end>'"]),
    ("- name: a\n\tdepends: b\n", YAML, ["2:1: not valid YAML: found character '\\t' that cannot start any token"]),
    ("- name: a\n---\n- name: b\n", YAML, ["2:1: a second document begins here (one file, one workflow)"]),
    ("%YAML 1.1\n---\n- name: a\n", YAML, ["2:1: directives are not allowed"]),
    (
        "- name: &n a\n- name: b\n  depends: *n\n",
        YAML,
        [
            "1:9: anchors and aliases are not allowed (write it out)",
            "3:12: anchors and aliases are not allowed (write it out)",
            "3:12: '' is not a task (a name, PREV, PREV:name or COMMIT)",
        ],
    ),
    (
        "- name: !!python/object/apply:os.system [id]\n",
        YAML,
        [
            "1:9: tags such as 'tag:yaml.org,2002:python/object/apply:os.system' are not allowed",
            "1:9: text was expected",
        ],
    ),
    ("- name: a\n  name: b\n", YAML, ["2:3: 'name' is given twice (first in line 1)"]),
    ("- name: a\n  ? [x]\n  : y\n", YAML, ["2:5: a key must be plain text"]),
    ("- " * 40 + "x", YAML, ["1:65: nested more than 32 deep"]),
    ("x" * 300_000, YAML, ["1:1: the file is larger than 256 KiB"]),
    ("[" * 40, JSON, ["1:33: nested more than 32 deep"]),
    ('[{"name": "a",}]', JSON, ["1:15: not valid JSON: a key in quotes was expected"]),
    ('[{"name": "a"},]', JSON, ["1:16: not valid JSON: a value was expected"]),
    ('[{"name": "a"\n "x": 1}]', JSON, ["2:2: not valid JSON: ',' was expected"]),
    ('[{"name": NaN}]', JSON, ["1:11: not valid JSON: a value was expected"]),
    ('[{"name": "a"}] x', JSON, ["1:17: not valid JSON: something follows the value"]),
    ('[{"name": "\\ud800"}]', JSON, ["1:11: not valid JSON: half a character"]),
    ("\ufeff[]", JSON, ["1:1: the file begins with a byte order mark (save it as plain UTF-8)"]),
    ('[{"name": "a", "name": "b"}]', JSON, ["1:16: 'name' is given twice (first in line 1)"]),
    # Files.
    ("on: commit\ntasks: []\n", YAML, ["1:1: unknown key 'on' (did you mean 'when'?)"]),
    ("when: comit\ntasks: []\n", YAML, ["1:7: 'comit' is not one of commit, manual, schedule"]),
    ("when: commit\n", YAML, ["1:1: 'tasks' is missing"]),
    ("tasks:\n", YAML, ["1:1: 'tasks' has no value"]),
    ("tasks: {a: b}\n", YAML, ["1:8: a list of tasks was expected"]),
    ("tasks: [a]\n", YAML, ["1:9: a task was expected (name: …)"]),
    ("when: schedule\ntasks: []\n", YAML, ["1:7: a schedule needs a 'cron' (such as cron: 0 3 * * *)"]),
    ("cron: 0 3 * * *\ntasks: []\n", YAML, ["1:7: 'cron' needs 'when: schedule'"]),
    ("when: manual\norder: strict\ntasks: []\n", YAML, ["2:8: 'order' is only for commits"]),
    ("order: loose\ntasks: []\n", YAML, ["1:8: 'loose' is not one of strict, explicit"]),
    # Tasks.
    ("- depends: PREV\n", YAML, ["1:3: a task needs a name"]),
    ("- name: a:b\n", YAML, ["1:9: 'a:b' is not a name (letters, digits, '.', '_', '-'; up to 128)"]),
    ("- name: _definition\n", YAML, ["1:9: '_definition' is not a name (letters, digits, '.', '_', '-'; up to 128)"]),
    ("- name: PREV\n", YAML, ["1:9: PREV is reserved"]),
    (
        "- name: COMMIT\n  depends: [a]\n- name: a\n",
        YAML,
        ["2:13: COMMIT can only wait for earlier revisions (write PREV:a)"],
    ),
    ("- name: COMMIT\n  command: x\n", YAML, ["2:3: COMMIT has only 'depends'"]),
    ("- name: a\n- name: a\n", YAML, ["2:3: there are two tasks named 'a' (the other is at _workflows/main.yaml:1:3)"]),
    ("- name: a\n  command: x\n  script: y\n", YAML, ["3:11: a task has a command or a script, not both"]),
    ("- name: a\n  command: x\n  shell: bash\n", YAML, ["3:10: a shell needs a script (a command is run without one)"]),
    ("- name: a\n  image: b:1\n", YAML, ["2:10: 'image' needs a command or a script"]),
    # Edges.
    ("- name: a\n  depends: [b]\n", YAML, ["2:13: there is no task named 'b' (there are: a)"]),
    ("- name: a\n  depends: [a]\n", YAML, ["2:13: a depends on itself (write PREV for the earlier one)"]),
    ("- name: a\n  depends: [PREV, PREV:a]\n", YAML, ["2:19: a depends on PREV twice"]),
    ("- name: a\n  depends: ['PREV:']\n", YAML, ["2:13: 'PREV:' is not a task (a name, PREV, PREV:name or COMMIT)"]),
    (
        "- name: a\n  depends: [PREV:PREV]\n",
        YAML,
        ["2:13: 'PREV:PREV' is not a task (a name, PREV, PREV:name or COMMIT)"],
    ),
    ("- name: a\n  depends: [{if: finished}]\n", YAML, ["2:13: 'task' is missing or wrong"]),
    (
        "- name: a\n  depends: [{task: PREV, if: never}]\n",
        YAML,
        ["2:30: 'never' is not one of success, finished, failure"],
    ),
    ("- name: a\n  cancels: [a]\n", YAML, ["2:13: a cancels itself (write PREV for the earlier ones)"]),
    ("- name: a\n  cancels: [COMMIT]\n", YAML, ["2:13: COMMIT cannot be canceled"]),
    ("- name: a\n  cancels: [b]\n", YAML, ["2:13: there is no task named 'b' (there are: a)"]),
    ("- name: a\n  depends: PREV\n  cancels: PREV\n", YAML, ["3:12: a both depends on PREV and cancels it"]),
    (
        "- name: a\n- name: b\n  depends: a\n- name: c\n  depends: b\n  cancels: a\n",
        YAML,
        ["6:12: c cancels a, which must have ended before it starts"],
    ),
    (
        "- name: a\n  depends: b\n- name: b\n  cancels: a\n",
        YAML,
        ["4:12: b cancels a, which waits for b: it would never run"],
    ),
    (
        "- name: a\n  depends: b\n- name: b\n  depends: c\n- name: c\n  depends: a\n",
        YAML,
        ["1:3: these tasks wait for each other: a → b → c → a"],
    ),
    (
        "- {name: a, depends: b}\n- {name: b, depends: a}\n- {name: c, depends: d}\n- {name: d, depends: c}\n"
        "- {name: e, depends: [a, d]}\n",
        YAML,
        ["1:3: these tasks wait for each other: a → b → a", "3:3: these tasks wait for each other: c → d → c"],
    ),
]


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("text", "file", "expected"), FAULTS, ids=[repr(text[:40]) for text, *_ in FAULTS])
def test_a_fault_is_told_with_its_place_and_what_to_do(text: str, file: str, expected: list[str]) -> None:
    assert faults(text, file) == expected


VALUES = [
    ("timeout: 0x10", "a length of time was expected"),
    ("timeout: 1e99d", "a length of time was expected"),
    ("timeout: -5", "a length of time was expected"),
    ("timeout: 31d", "a length of time was expected"),
    ("timeout: ''", "a length of time was expected"),
    ("timeout: [5]", "a length of time was expected"),
    ("retries: 21", "a whole number from 0 to 20 was expected"),
    ("retries: '3'", "a whole number from 0 to 20 was expected"),
    ("retries: 010", "a whole number from 0 to 20 was expected"),
    ("network: yes", "'yes' is not a host"),
    ("network: 'true'", "'true' is not a host"),
    ("network: [localhost]", "'localhost' is not a host"),
    ("network: ['https://data.example.org']", "'https://data.example.org' is not a host"),
    ("network: ['*.org']", "'*.org' is not a host"),
    ("network: [ada@data.example.org]", "'ada@data.example.org' is not a host"),
    ("blocking: True", "true or false was expected"),
    ("output_limit: 1", "a size was expected"),
    ("output_limit: 99TB", "a size was expected"),
    ("lane: ../x", "'../x' is not a name"),
    ("outputs: [/etc/passwd]", "'/etc/passwd' is not a path below the work folder"),
    ("outputs: [a/../../b]", "'a/../../b' is not a path below the work folder"),
    ("secrets: [a b]", "'a b' is not a name"),
    ("env: [A]", "variables were expected"),
    ("env: {A-B: x}", "'A-B' is not a name for a variable"),
    ("env: {CUSTODY_REVISION: 1}", "'CUSTODY_REVISION' is not a name for a variable"),
    ("env: {A: [x]}", "text was expected"),
    ("image: --privileged", "'--privileged' is not the name of an image"),
    ("image: a;rm", "'a;rm' is not the name of an image"),
    ("image: UPPER/case", "'UPPER/case' is not the name of an image"),
    ("image: 'x:1 -v /:/h'", "'x:1 -v /:/h' is not the name of an image"),
    ("image: x@sha256:12", "'x@sha256:12' is not the name of an image"),
    ("grace: ~", "'grace' has no value"),
    ("comand: x", "unknown key 'comand' (did you mean 'command'?)"),
]


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("written", "message"), VALUES, ids=[written for written, _ in VALUES])
def test_a_wrong_value_is_told(written: str, message: str) -> None:
    (fault,) = task_faults(f"command: run\n{written}")
    assert fault.split(": ", 1)[1].startswith(message)
    assert fault.startswith("3:")


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    "written",
    [
        "command: ''",
        "command: []",
        "command: ['', x]",
        'command: "it\'s"',
        'command: "a\\0b"',
        "script: '  '",
    ],
)
def test_a_command_must_be_one(written: str) -> None:
    assert len(task_faults(written)) == 1


@pytest.mark.proves("H1")
@pytest.mark.parametrize("written", ["shell: /bin/sh", "shell: sh -c", "shell: fish"])
def test_a_shell_is_one_of_those_we_know(written: str) -> None:
    (fault,) = task_faults(f"script: x\n{written}")
    assert "is not one of sh, bash" in fault


CRONS = [
    "* * * *",
    "* * * * * *",
    "60 * * * *",
    "0 0 30 2 *",
    "*/0 * * * *",
    "5-1 * * * *",
    "@daily",
    "x * * * *",
    "0 0 31 4,6,9,11 *",
    "1" * 200,
    "",
    "0 0 * * 9",
]


@pytest.mark.proves("H1")
@pytest.mark.parametrize("cron", CRONS)
def test_a_cron_that_cannot_fire_is_refused(cron: str) -> None:
    (fault,) = faults(f"when: schedule\ncron: '{cron}'\ntasks: []\n")
    assert fault.startswith("2:7: ")
    assert "cron" in fault


@pytest.mark.proves("H1")
@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "Europe", "", "CET\\0"])
def test_a_time_zone_must_exist(zone: str) -> None:
    (fault,) = faults(f'when: schedule\ncron: 0 3 * * *\ntimezone: "{zone}"\ntasks: []\n')
    assert fault.startswith("3:11: ")


def test_all_faults_are_told_at_once_in_the_order_of_the_files() -> None:
    found = read(
        {
            "_workflows/b.yaml": b"- name: x\n  depends: [y, z]\n  timeout: soon\n  oops: 1\n",
            "_workflows/a.json": b'[{"name": "x", "command": "y", "retries": -1}]',
        }
    ).faults
    assert [(fault.file[-6:], fault.line, fault.column) for fault in found] == [
        ("a.json", 1, 43),
        ("b.yaml", 1, 3),
        ("b.yaml", 2, 13),
        ("b.yaml", 2, 16),
        ("b.yaml", 3, 12),
        ("b.yaml", 3, 12),
        ("b.yaml", 4, 3),
    ]


def test_tasks_of_several_commit_files_know_each_other_and_others_do_not() -> None:
    index = b"- name: index\n"
    pdf = b"- name: pdf\n  depends: index\n"
    assert read({"_workflows/a.yaml": index, "_workflows/b.yaml": pdf}).faults == ()
    (fault,) = read(
        {
            "_workflows/a.yaml": index,
            "_workflows/b.yaml": b"when: manual\ntasks:\n- name: pdf\n  depends: index\n",
        }
    ).faults
    assert fault.message == "there is no task named 'index'"


def test_bytes_that_are_not_text_are_told_with_their_place() -> None:
    (fault,) = read({YAML: b"- name: a\n  command: \xff\n"}).faults
    assert (fault.line, fault.column, fault.message) == (2, 12, "this is not UTF-8 text")


def test_many_tasks_are_compared_quickly_and_too_many_are_refused() -> None:
    chain = "".join(
        f"- {{name: t{n}, depends: [{', '.join(f't{m}' for m in range(max(0, n - 5), n))}]}}\n" for n in range(1000)
    )
    began = time.thread_time()
    found = read({YAML: chain.encode()})
    lint(found)
    assert found.faults == ()
    assert time.thread_time() - began < 10
    (fault,) = read({YAML: "".join(f"- name: t{n}\n" for n in range(1001)).encode()}).faults
    assert fault.message == "there are more than 1000 tasks in this revision"


scribbles = st.text(alphabet="-:[]{}&*!|>'\"# \n\tabPREV0\\,", max_size=60).map(str.encode)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=60), scribbles), st.sampled_from([YAML, JSON]))
def test_no_text_makes_the_reader_fail(data: bytes, file: str) -> None:
    found = read({file: data})
    assert found.faults or found.workflows
    assert all(fault.line >= 1 and fault.column >= 1 for fault in found.faults)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*"ab", "name", "depends"]), inner),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(json_values, st.integers(0, 4))
def test_valid_json_is_never_called_invalid(value: object, indent: int) -> None:
    found = read({JSON: json.dumps(value, indent=indent or None).encode()}).faults
    assert not [fault for fault in found if "not valid JSON" in fault.message]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("_workflows/a.yaml", True),
        ("/_workflows/a.json", True),
        ("_workflows/a.yml", False),
        ("_workflows/sub/a.yaml", False),
        ("_workflows/.a.yaml", False),
        ("a.yaml", False),
        ("x/_workflows/a.yaml", False),
        ("_workflows/a.yaml.bak", False),
    ],
)
def test_only_files_directly_in_the_folder_are_workflows(path: str, expected: bool) -> None:
    assert is_workflow_file(path) is expected


def test_the_hash_changes_with_content_and_name_and_nothing_else() -> None:
    files = {"_workflows/a.yaml": b"- name: a\n", "_workflows/b.yaml": b"- name: b\n"}
    same = dict(reversed(files.items()))
    assert digest(files) == digest(same) == read(files).hash
    assert digest(files) != digest({"_workflows/a.yaml": b"- name: b\n", "_workflows/b.yaml": b"- name: a\n"})
    assert digest(files) != digest({"_workflows/a.yaml": b"- name: a\n"})
    moved = task("# a comment\ncommand: [make]")
    assert moved.hash == task("command: make").hash != task("command: make all").hash


REMARKS = [
    ("- name: a\n", ["1:3: a runs nothing (it only joins the tasks it depends on)"]),
    ("[]", ["1:1: there are no tasks in this file"]),
    (
        "- {name: a, command: x, depends: 'PREV:gone'}",
        ["1:34: no task is named 'gone' now (an earlier revision may have one)"],
    ),
    (
        "- {name: a, command: x, image: pandoc/latex}",
        ["1:3: the image pandoc/latex may change (name a version, or better a digest)"],
    ),
    (
        "- {name: a, command: x, image: 'r.example.org:5000/p:latest'}",
        ["1:3: the image r.example.org:5000/p:latest may change (name a version, or better a digest)"],
    ),
    ("- {name: a, command: x, image: 'r.example.org:5000/p:1.2'}", []),
    (
        "- {name: a, command: x, cancels: PREV, blocking: true}",
        ["1:3: a is blocking and cancels PREV (the next commit waits for it, so it is never replaced)"],
    ),
    ('- {name: a, script: "x\\r\\ny"}', ["1:3: the script of a has Windows line endings (most shells trip over them)"]),
    (
        "- {name: a, command: x}\n- {name: b, command: x, depends: a}\n- {name: c, command: x, depends: [a, b]}\n",
        ["3:35: c need not name a (b waits for it already)"],
    ),
    ("- {name: a, command: x, depends: {task: PREV, if: failure}}", ["1:34: a runs only if PREV has failed"]),
]


@pytest.mark.parametrize(("text", "expected"), REMARKS, ids=[repr(text[:40]) for text, _ in REMARKS])
def test_lint_tells_what_was_probably_not_meant(text: str, expected: list[str]) -> None:
    found = read({YAML: text.encode()})
    assert found.faults == ()
    assert [str(remark).removeprefix(f"{YAML}:") for remark in lint(found)] == expected


def test_lint_tells_of_files_that_are_not_read() -> None:
    names = ("a.yml", "sub/b.yaml", "c.yaml", "notes.txt")
    found = lint(read({}), [f"_workflows/{name}" for name in names])
    assert [(remark.file, remark.hint) for remark in found] == [
        ("_workflows/a.yml", "rename it to .yaml"),
        ("_workflows/sub/b.yaml", "it must be directly in _workflows"),
    ]


def test_two_workflows_of_one_name_cannot_both_be_told_from_each_other_by_the_clock() -> None:
    by_clock = b"when: schedule\ncron: 0 3 * * *\ntasks: [{name: a, script: echo}]\n"
    found = read({"_workflows/nightly.json": b'[{"name": "b", "script": "echo"}]', "_workflows/nightly.yaml": by_clock})
    (fault,) = found.faults
    assert fault.file == "_workflows/nightly.yaml"
    assert "two workflows named 'nightly'" in fault.message
    assert "nightly.json" in fault.hint
