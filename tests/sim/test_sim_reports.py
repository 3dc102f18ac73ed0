"""Reports: text, JSON and the page, alone and compared."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from worlds import job, node, queue, quota, report, simulate, write

EXAMPLE = Path(__file__).parents[2] / "examples" / "simulate" / "two-tenants.yaml"

UNIT = {
    "namespace", "name", "queue", "quota", "arrived_s", "admitted_s", "finished_s", "phase", "evictions", "wait_s",
    "message",
}  # fmt: skip


def test_the_example_shows_dominant_resource_fairness() -> None:
    deserved = {each["name"]: each["deserved"] for each in report(EXAMPLE, "--until", "1m")["quotas"]}

    assert deserved["team-a/tasks"] == {"cpu": "3", "memory": "12Gi"}
    assert deserved["team-b/tasks"] == {"cpu": "6", "memory": "2Gi"}


def test_queue_jobs_shrink_to_what_they_deserve() -> None:
    example = EXAMPLE.with_name("queue-jobs.yaml")

    run = report(example, "--capacity", "cpu=9,memory=18Gi", "--until", "1m")

    used = {each["name"]: each["used"] for each in run["quotas"]}
    assert used["team-a/tasks"] == {"cpu": "3", "memory": "12Gi"}
    assert used["team-b/tasks"] == {"cpu": "6", "memory": "2Gi"}
    assert run["summary"]["evictions"] == 0
    assert run["summary"]["shrinks"] == 1


def test_the_json_schema_is_what_is_promised() -> None:
    run = report(EXAMPLE)

    assert list(run) == ["units", "queues", "quotas", "tenants", "summary", "shares"]
    assert all(set(each) == UNIT for each in run["units"])
    assert all({"name", "deserved", "used", "min", "max"} <= set(each) for each in run["quotas"])
    assert all({"namespace", "name", "waiting", "holding"} <= set(each) for each in run["queues"])


def test_text_shows_the_summary_the_tables_and_a_cut_timeline() -> None:
    done = simulate(EXAMPLE, "--timeline", "5")

    assert done.exit_code == 0
    for want in ("10 units in 15m", "QUOTA", "QUEUE", "TENANT", "TIMELINE", "more events (--timeline N shows more)"):
        assert want in done.stdout
    assert not any(line != line.rstrip() for line in done.stdout.splitlines())


def test_text_says_why_a_unit_waits(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="1"), queue(), job("huge", cpu="5"))

    done = simulate(path)

    assert "NOT ADMITTED (1)" in done.stdout
    assert "can never start" in " ".join(done.stdout.split())


def test_share_policies_are_compared_side_by_side() -> None:
    run = report(EXAMPLE, "--share", "drf,none", "--until", "1m")

    assert [each["share"] for each in run["runs"]] == ["drf", "none"]
    assert [each["summary"]["evictions"] for each in run["runs"]] == [1, 0]
    text = simulate(EXAMPLE, "--share", "drf,none", "--until", "1m").stdout
    assert re.search(r"evictions +1 +0\n", text)
    assert "DESERVED AT THE END" in text


def test_settings_are_compared_side_by_side() -> None:
    run = report(EXAMPLE, "--set", "protectedTime=0s,10m")

    assert [each["set"] for each in run["runs"]] == [{"protectedTime": "0s"}, {"protectedTime": "10m"}]
    assert [each["summary"]["evictions"] for each in run["runs"]] == [1, 0]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (["--set", "wait=3"], 'no setting "wait"; there are oversell, reserveAfter, protectedTime'),
        (["--set", "oversell"], "is not key=value"),
        (["--set", "oversell=much"], "oversell: "),
        (["--set", "reserveAfter=soon"], "reserveAfter: "),
        (["--set", "oversell=1", "--set", "oversell=2"], "is there twice"),
        (["--share", "fair"], "there is no share policy fair; there is: drf, koordinator, none, proportion"),
        (["--capacity", "cpu"], "--capacity: "),
        (["--capacity", "cpu=1,cpu=2"], "cpu is there twice"),
        (["--capacity", "cpu=-4"], "--capacity.cpu: "),
        (["--until", "then"], "is not a duration"),
        (["--share", "drf,koordinator,proportion,none", "--set", "reserveAfter=1,2,3,4"], "16 runs are more than 12"),
    ],
)
def test_a_bad_option_says_what_there_is(options: list[str], want: str) -> None:
    done = simulate(EXAMPLE, *options)

    assert done.exit_code == 2
    assert want in " ".join(done.stderr.split())


def test_oversell_makes_more_room(tmp_path: Path) -> None:
    path = write(tmp_path, node(cpu="10"), queue(), *(job(f"j{i}") for i in range(14)))

    run = report(path, "--set", "oversell=1.2", "--until", "0s")

    assert run["quotas"][0]["max"] == {"cpu": "12"}
    assert run["summary"]["running"] == 12


class Page(HTMLParser):
    """Notes what a page opens, and what it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.shapes = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "line", "rect"):
            self.open.append(tag)
        self.shapes += tag in ("path", "rect")
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        self.loads += [tag] if tag in ("script", "link", "iframe") else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    out = tmp_path / "report.html"

    done = simulate(EXAMPLE, "--html", out)

    page = Page()
    page.feed(out.read_text())
    assert done.exit_code == 0
    assert not page.open
    assert not page.loads
    assert page.shapes > 20
    assert "Used against deserved" in out.read_text()
    assert simulate(EXAMPLE, "-o", "html").stdout == out.read_text() + "\n"


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    odd = job("j", labels={"scheduling.x-k8s.io/queue-name": "<script>alert(1)</script>"})

    done = simulate(write(tmp_path, node(cpu="1"), queue(), odd), "-o", "html")

    assert "<script" not in done.stdout
    assert "&lt;script&gt;" in done.stdout


def test_a_big_run_makes_a_page_below_two_megabytes(tmp_path: Path) -> None:
    jobs = [job(f"j{i}", at=f"{i * 7 % 3000}s", runs=f"{20 + i % 90}s", namespace=f"t{i % 40}") for i in range(3000)]
    tenants = [queue(namespace=f"t{i}", quota=f"t{i}") for i in range(40)] + [quota(f"t{i}") for i in range(40)]
    path = write(tmp_path, node(cpu="60"), *tenants, *jobs)
    out = tmp_path / "report.html"

    done = simulate(path, "--share", "drf,none", "--html", out)

    assert done.exit_code == 0
    assert 50_000 < out.stat().st_size < 2_000_000
    assert "units that took longest" in out.read_text()


def test_a_page_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    done = simulate(EXAMPLE, "--html", tmp_path / "no" / "where.html")

    assert done.exit_code == 1
    assert "cannot be written" in done.stderr
