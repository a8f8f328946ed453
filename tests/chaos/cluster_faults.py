"""The faults of clusters, and of the network before them."""

from __future__ import annotations

from collections import Counter

from history.record import Job
from support.disk import MIB
from support.jobs import unique_id
from support.ray_cluster import RayCluster
from support.waiting import wait_until

from .fakes import Fake
from .faults import Fault
from .proxy import Mood
from .stage import UNKNOWN_FIELD, Stage


class Network(Fault):
    """Dashboards behind a proxy, fake ones and a real one."""

    held = (6, 10)

    def __init__(self, stage: Stage, mood: Mood, what: str, *clusters: str) -> None:
        super().__init__(stage)
        self.mood = mood
        self.name = f"network: {what}"
        self.clusters = clusters or tuple(stage.proxies)

    def inject(self) -> None:
        self._set(self.mood)

    def heal(self) -> None:
        self._set(Mood.KIND)

    def affected(self) -> tuple[str, ...]:
        return self.clusters

    def _set(self, mood: Mood) -> None:
        for cluster in self.clusters:
            self.stage.proxies[cluster].mood = mood


class SlowLink(Network):
    """A push takes longer than a request may take to leave."""

    held = (4, 6)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, Mood.SLOW_LINK, "a package over a link of 1 MB/s", "shaky")

    def inject(self) -> None:
        super().inject()
        package = f"_ray_pkg_{self.stage.dice.getrandbits(64):016x}.zip"
        content = self.stage.dice.randbytes(6 * MIB)
        self.stage.plane.request("PUT", f"/api/packages/gcs/{package}", data=content)
        env = {"working_dir": f"gcs://{package}"}
        only = {"preferred_cluster": "shaky", "required": True}
        self._large = self.submit("package", runtime_env=env, **only)

        wait_until(
            lambda: "pushing its packages: " in self.why(self._large),
            "why tells how far the push is",
            timeout=10,
        )

    def after(self) -> None:
        self.wait_for_end(self._large, "its package arrives")


class OldRay(Fault):
    """A cluster whose Ray does not know a field answers 400. Others run the job."""

    name = "an old Ray: 400 for a field that it does not know"

    def inject(self) -> None:
        request = {"preferred_cluster": "old", UNKNOWN_FIELD: 1024}
        jobs = [self.submit("field", **request) for _ in range(3)]
        for job in jobs:
            self.wait_for_end(job, "another cluster runs the job")
            assert self.shown(job)["cluster"] != "old"

    def affected(self) -> tuple[str, ...]:
        return ("old",)


class HeadKilled(Fault):
    """SIGKILL to every process on it, and a new head without memory."""

    held = (3, 5)

    def __init__(self, stage: Stage, cluster: RayCluster | Fake) -> None:
        super().__init__(stage)
        self.cluster = cluster
        kind = "a fake" if isinstance(cluster, Fake) else "a real"
        self.name = f"Ray head ({kind} one): kill -9, and a new one"

    def inject(self) -> None:
        self.stage.watcher.head_killed(self.cluster.name)
        self.cluster.kill()

    def heal(self) -> None:
        self.restart()
        self.stage.watcher.head_replaced(self.cluster.name)

    def restart(self) -> None:
        self.cluster.restart()

    def affected(self) -> tuple[str, ...]:
        return (self.cluster.name,)

    def submit_there(self, name: str, count: int, held_back: str = "") -> list[Job]:
        """Jobs that run on it. With `held_back`, others may wait if `why` says that of them."""
        only = {"preferred_cluster": self.cluster.name, "required": True}
        jobs = [self.submit(name, "sleep 6", **only) for _ in range(count)]
        began: Counter[str] = Counter()

        def settled() -> bool:
            began.update(self.stage.history.began())
            whys = [self.why(job) for job in jobs if job.id not in began]
            assert all(held_back and held_back in why for why in whys), whys
            return True

        wait_until(settled, f"{name}s run", timeout=30)
        return [job for job in jobs if job.id in began]


class OldHeadKilled(HeadKilled):
    """Only its node tells the new head from the old one. Jobs were sent to the old one whose
    submitter never got an answer: they must not be sent again."""

    held = (1, 2)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, stage.fakes["old"])
        self.name = "Ray head without a session: answers lost, kill -9, and a new one"

    def inject(self) -> None:
        self.stage.proxies["old"].mood = Mood.JOBS_UNANSWERED
        # After earlier faults, few jobs may be starting at once; without answers, they go on
        # starting and the next ones wait for them.
        self.unanswered = self.submit_there("unanswered", 3, held_back="old: is starting ")
        super().inject()

    def heal(self) -> None:
        super().heal()
        self.stage.proxies["old"].mood = Mood.KIND


class StrangersRun(OldHeadKilled):
    """On the new head somebody else runs something under the ids of our jobs: of jobs that were
    seen running, and of jobs whose submitter never got an answer."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.name = "Ray head: a new one, with strangers' runs under the ids of our jobs"

    def inject(self) -> None:
        self._ours = self.submit_there("ours", 2)
        for job in self._ours:
            wait_until(lambda job=job: self.shown(job)["state"] == "running", "it is seen running")
        super().inject()

    def restart(self) -> None:
        super().restart()
        text = unique_id("strange")
        self.stage.history.stranger(text)
        for job in self._ours + self.unanswered:
            self.stage.fakes["old"].submit(job.id, f"echo {text}; sleep 2; exit 0")

    def after(self) -> None:
        for job in self._ours + self.unanswered:
            self.wait_for_end(job, "its end is known")
            self.stage.watcher.look_at(job.id)
            self.stage.watcher.read_log(job.id)


class HeadFrozen(Fault):
    """SIGSTOP: connections are accepted, but never answered."""

    name = "Ray head (a real one): SIGSTOP for a while"
    held = (8, 12)

    def __init__(self, stage: Stage, cluster: RayCluster) -> None:
        super().__init__(stage)
        self.cluster = cluster

    def inject(self) -> None:
        self.cluster.freeze()

    def heal(self) -> None:
        self.cluster.thaw()

    def affected(self) -> tuple[str, ...]:
        return (self.cluster.name,)
