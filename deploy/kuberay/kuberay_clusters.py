#!/usr/bin/env python3
"""Write a file for `cluster_files` from each RayCluster of a Kubernetes cluster.

    kuberay_clusters.py /etc/ray_scheduler/clusters.d                 once, for all namespaces
    kuberay_clusters.py --every 10 -n research /etc/.../clusters.d    every 10 s, for one namespace
    kubectl get rayclusters -A -o json | kuberay_clusters.py --from - FOLDER

The objects come from `kubectl get rayclusters -o json`, or with --api from the API server of the
cluster that this program runs in. Files are replaced in one step; a file whose content is the same
is not touched; the file of a RayCluster that was deleted or suspended is removed. If the list
cannot be read, nothing changes. Needs Python 3.9 or later and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Callable, NamedTuple

# Names as Kubernetes allows them. Anything else is not used as the name of a file.
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
ANNOTATION = "ray-multicluster/"
# The control plane accepts names of up to 64 bytes.
LONGEST_NAME = 64
# maxReplicas of a group that does not say how far it may grow.
UNLIMITED = 2**31 - 1
# A thousand RayClusters have about 20 MiB.
MOST_BYTES = 256 << 20
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Object = dict[str, Any]
Resources = dict[str, float]
Warn = Callable[[str], None]


class Unusable(Exception):
    """This object cannot become a file now; the file that it has stays."""


class Gone(Exception):
    """This object is not a cluster for us: it has no file."""


class Options(NamedTuple):
    prefix: str = ""
    host: str = "{service}.{namespace}.svc.cluster.local"
    within: str = "10m"
    more: Object | None = None


# --- from an object to the content of its file ---


def describe(item: Object, options: Options, warn: Warn = print) -> Object:
    """The entry of one RayCluster in `clusters:`."""
    namespace, name = names(item)
    notes = mapping(mapping(item.get("metadata")).get("annotations"))
    check_wanted(item, notes)
    status, spec = mapping(item.get("status")), mapping(item.get("spec"))
    head = mapping(status.get("head"))
    service = head.get("serviceName")
    if not isinstance(service, str) or not NAME.fullmatch(service):
        raise Unusable("its head has no service yet")
    if not is_ready(status):
        raise Unusable("its head is not ready yet")
    host = options.host.replace("{service}", service).replace("{namespace}", namespace)
    host = host.replace("{name}", name)
    head_group = mapping(spec.get("headGroupSpec"))
    entry: Object = {
        "name": short(".".join(filter(None, (options.prefix, namespace, name)))),
        "head_address": f"{host}:{port(status, head_group, 'client', 10001)}",
        "dashboard": f"http://{host}:{port(status, head_group, 'dashboard', 8265)}",
    }
    tags = [tag.strip() for tag in str(notes.get(ANNOTATION + "tags", "")).split(",")]
    if tags := [tag for tag in tags if tag]:
        entry["tags"] = [tag for tag in tags if is_tag(tag)]
        for tag in set(tags) - set(entry["tags"]):
            warn(f"the tag {tag[:40]!r} is not a word: left out")
    if (weight := notes.get(ANNOTATION + "weight")) is not None:
        if (number := a_number(weight)) is not None and 0 <= number <= 1_000_000:
            entry["weight"] = number
        else:
            warn(f"the weight {str(weight)[:40]!r} is not a number from 0: left out")
    if elastic := grown(spec, notes, options, warn):
        entry["elastic"] = elastic
    return {**entry, **(options.more or {})}


def names(item: Object) -> tuple[str, str]:
    metadata = mapping(item.get("metadata"))
    namespace, name = metadata.get("namespace"), metadata.get("name")
    if not isinstance(namespace, str) or not NAMESPACE.fullmatch(namespace):
        raise Gone(f"its namespace is no name: {str(namespace)[:80]!r}")
    if not isinstance(name, str) or len(name) > 253 or not NAME.fullmatch(name):
        raise Gone(f"its name is no name: {str(name)[:80]!r}")
    return namespace, name


def check_wanted(item: Object, notes: Object) -> None:
    metadata, spec = mapping(item.get("metadata")), mapping(item.get("spec"))
    use = str(notes.get(ANNOTATION + "use", "")).lower()
    if use == "false":
        raise Gone("its annotation says so")
    # KubeRay makes these for one job or one service, and deletes them with it.
    owner = mapping(metadata.get("labels")).get("ray.io/originated-from-crd")
    if owner in ("RayJob", "RayService", "RayCronJob") and use != "true":
        raise Gone(f"it belongs to a {owner}")
    if metadata.get("deletionTimestamp"):
        raise Gone("it is being deleted")
    if spec.get("suspend") is True:
        raise Gone("it is suspended")


def is_ready(status: Object) -> bool:
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else []:
        if mapping(condition).get("type") == "HeadPodReady":
            return mapping(condition).get("status") == "True"
    # KubeRay before 1.3 has no conditions.
    return status.get("state") == "ready"


def port(status: Object, head: Object, name: str, default: int) -> int:
    """As the status says, else the container, else Ray's own."""
    found: list[Any] = [mapping(status.get("endpoints")).get(name)]
    ports = container(head).get("ports")
    for one in map(mapping, ports if isinstance(ports, list) else []):
        if one.get("name") == name:
            found.append(one.get("containerPort"))
    if name == "dashboard":
        found.append(mapping(head.get("rayStartParams")).get("dashboard-port"))
    for text in found:
        with contextlib.suppress(TypeError, ValueError):
            if 0 < int(text) < 65536:
                return int(text)
    return default


def short(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def is_tag(tag: str) -> bool:
    return len(tag.encode()) <= 128 and tag.isprintable() and not any(c.isspace() for c in tag)


# --- how far it can grow ---


def grown(spec: Object, notes: Object, options: Options, warn: Warn) -> Object | None:
    """`elastic`, if its autoscaler is on: all of it at its largest, and its largest node."""
    if spec.get("enableInTreeAutoscaling") is not True:
        return None
    groups = spec.get("workerGroupSpecs")
    groups = [mapping(group) for group in groups] if isinstance(groups, list) else []
    groups = [group for group in groups if group.get("suspend") is not True]
    total: Resources = dict(resources(mapping(spec.get("headGroupSpec")), "the head", warn))
    largest: Resources = {}
    for group in groups:
        what = f"group {str(group.get('groupName', '?'))[:63]!r}"
        nodes = at_most(group, what, warn)
        for resource, amount in resources(group, what, warn).items() if nodes else ():
            total[resource] = total.get(resource, 0) + amount * nodes
            largest[resource] = max(largest.get(resource, 0), amount)
    if not largest:
        warn("it has no worker group that can grow: no `elastic`")
        return None
    within = str(notes.get(ANNOTATION + "within", options.within))
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?", within):
        warn(f"within {within[:40]!r} is no length of time: {options.within} instead")
        within = options.within
    return {"max": shown(total), "node": shown(largest), "within": within}


def shown(amounts: Resources) -> Object:
    return {resource: number(amount) for resource, amount in sorted(amounts.items()) if amount > 0}


def at_most(group: Object, what: str, warn: Warn) -> int:
    most, hosts = a_number(group.get("maxReplicas")), a_number(group.get("numOfHosts"))
    if most is None or most >= UNLIMITED:
        most = a_number(group.get("replicas")) or 0
        warn(f"{what} has no maxReplicas: counted with its {most:g} replicas of now")
    return int(max(most, 0)) * int(max(hosts or 1, 1))


def resources(group: Object, what: str, warn: Warn) -> Resources:
    """One node of a group: what `resources` says, else rayStartParams, else its container."""
    found: Resources = {}
    limits = mapping(container(group).get("resources"))
    asked, limits = mapping(limits.get("requests")), mapping(limits.get("limits"))
    for key in (*asked, *limits):
        amount = quantity(limits.get(key, asked.get(key)))
        if amount is None:
            warn(f"{what}: {key} {str(limits.get(key, asked.get(key)))[:40]!r} is no quantity")
        elif key == "cpu":
            # As KubeRay does: half a core is one CPU.
            found["CPU"] = float(amount.to_integral_value(ROUND_CEILING))
        elif key == "memory":
            found["memory"] = float(amount)
        elif key.endswith("gpu"):
            found["GPU"] = float(amount)
        elif key == "google.com/tpu":
            found["TPU"] = float(amount)
        elif key.startswith("aws.amazon.com/neuroncore"):
            found["neuron_cores"] = float(amount)
    start = mapping(group.get("rayStartParams"))
    for key, resource in (("num-cpus", "CPU"), ("num-gpus", "GPU"), ("memory", "memory")):
        if key in start:
            found.update(amounts({resource: start[key]}, what, warn))
    if "resources" in start:
        found.update(amounts(custom(start["resources"], what, warn), what, warn))
    found.update(amounts(mapping(group.get("resources")), what, warn))
    if "CPU" not in found:
        warn(f"{what}: it is not known how many CPUs a node has")
    return found


def amounts(given: Object, what: str, warn: Warn) -> Resources:
    found: Resources = {}
    for resource, text in given.items():
        amount = quantity(text)
        if amount is not None and is_tag(resource) and "," not in resource:
            found[resource] = float(amount)
        else:
            warn(f"{what}: {resource[:40]!r} {str(text)[:40]!r} is no resource")
    return found


def custom(text: Any, what: str, warn: Warn) -> Object:
    r"""`'"{\"licence\": 2}"'`: JSON as people quote it for a shell."""
    plain = str(text).strip().strip("'\"").replace('\\"', '"')
    with contextlib.suppress(ValueError):
        if isinstance(found := json.loads(plain), dict):
            return found
    warn(f"{what}: resources {str(text)[:80]!r} is not JSON")
    return {}


def quantity(text: Any) -> Decimal | None:
    """`500m`, `16Gi`, `1e3`, `4`: a quantity of Kubernetes that is not negative."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        return None
    match = re.fullmatch(
        r"([0-9.]{1,30}(?:[eE][+-]?[0-9]{1,2})?)([numkMGTPE]?|[KMGTPE]i)", str(text).strip()
    )
    if not match:
        return None
    scale = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1)}
    for power, letter in enumerate("kMGTPE", 1):
        scale[letter] = Decimal(1000) ** power
        scale[letter.upper() + "i"] = Decimal(1024) ** power
    with contextlib.suppress(InvalidOperation):
        return Decimal(match[1]) * scale[match[2]]
    return None


def container(group: Object) -> Object:
    """Ray's, which is the first one."""
    found = mapping(mapping(mapping(group.get("template")).get("spec"))).get("containers")
    return mapping(found[0]) if isinstance(found, list) and found else {}


def mapping(value: Any) -> Object:
    """Objects may be half filled."""
    return value if isinstance(value, dict) else {}


def a_number(text: Any) -> float | None:
    amount = quantity(text)
    return None if amount is None else number(float(amount))


def number(value: float) -> float:
    return int(value) if value == int(value) else value


# --- files ---


def header(options: Options, namespace: str, name: str) -> str:
    """Files without it are not ours, and are left alone."""
    prefix = options.prefix or "-"
    return f"# kuberay_clusters.py wrote this: prefix {prefix}, RayCluster {namespace}/{name}\n"


def text_of(entry: Object) -> str:
    """JSON is YAML, whatever the texts are."""
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in entry.items()]
    return "clusters:\n  - " + "    ".join(lines)


def write(folder: Path, items: list[Object], options: Options, namespace: str | None) -> list[str]:
    """Makes the files in the folder those of these objects; returns what changed."""
    changed, stays, seen = [], set(), set()
    for item in items:
        item = mapping(item)
        metadata = mapping(item.get("metadata"))
        label = printable(f"{metadata.get('namespace')}/{metadata.get('name')}")

        def warn(text: str, label: str = label) -> None:
            print(f"{label}: {printable(text)}", file=sys.stderr)

        try:
            file = ".".join(filter(None, (options.prefix, *names(item)))) + ".yaml"
            # Too long for a file: nothing that Kubernetes allows a head service for.
            if len(file) > 200:
                raise Gone("its name is too long")
            entry = describe(item, options, warn)
        except Gone as why:
            warn(f"left out: {why}")
            continue
        except Unusable as why:
            warn(f"not written: {why}")
            stays.add(file)
            continue
        if entry["name"] in seen:
            warn(f"left out: another RayCluster is called {entry['name']}")
            continue
        seen.add(entry["name"])
        stays.add(file)
        if replace(folder / file, header(options, *names(item)) + text_of(entry)):
            changed.append(f"wrote {file}")
    for path in sorted(folder.glob("*.yaml")):
        if path.name not in stays and is_ours(path, options, namespace):
            path.unlink()
            changed.append(f"removed {path.name}")
    return changed


def replace(path: Path, text: str) -> bool:
    """In one step, so that nobody reads half a file; not at all if nothing changes."""
    with contextlib.suppress(OSError, ValueError):
        if path.read_text(encoding="utf-8") == text:
            return False
    # Hidden: `*.yaml` does not match it.
    handle, fresh = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # The control plane may run as another user.
        os.chmod(fresh, 0o644)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
    return True


def is_ours(path: Path, options: Options, namespace: str | None) -> bool:
    """Did this program write it, for the same prefix and the same namespace?"""
    try:
        with path.open(encoding="utf-8") as file:
            first = file.readline(1000)
    except (OSError, ValueError):
        return False
    return first.startswith(
        header(options, namespace, "").rstrip("\n") if namespace else header(options, "", "")[:-2]
    )


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:500])


# --- where the objects come from ---


def by_kubectl(namespace: str | None, context: str | None) -> bytes:
    command = ["kubectl", "get", "rayclusters.ray.io", "-o", "json", "--request-timeout=30s"]
    command += ["--namespace", namespace] if namespace else ["--all-namespaces"]
    command += ["--context", context] if context else []
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        raise OSError(f"kubectl: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def by_api(namespace: str | None) -> bytes:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    where = f"namespaces/{namespace}/rayclusters" if namespace else "rayclusters"
    # Read each time: Kubernetes replaces the token every hour.
    token = (ACCOUNT / "token").read_text().strip()
    request = urllib.request.Request(f"https://{host}:{port}/apis/ray.io/v1/{where}")
    request.add_header("Authorization", f"Bearer {token}")
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=30, context=trust) as answer:
        return bytes(answer.read(MOST_BYTES + 1))


def fetch(given: argparse.Namespace) -> bytes:
    if given.source == "-":
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    if given.source:
        with open(given.source, "rb") as file:
            return file.read(MOST_BYTES + 1)
    return by_api(given.namespace) if given.api else by_kubectl(given.namespace, given.context)


def items_of(text: bytes) -> list[Object]:
    """All objects, or an error: half a list would remove the files of the others."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"the list is larger than {MOST_BYTES >> 20} MiB")
    found = json.loads(text)
    items = found.get("items") if isinstance(found, dict) else None
    if not isinstance(items, list):
        raise ValueError("this is no list of objects: there is no `items`")
    if mapping(found.get("metadata")).get("continue"):
        raise ValueError("the list is not complete")
    return items


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="where the files are, such as clusters.d")
    parser.add_argument("-n", "--namespace", help="of one namespace only")
    parser.add_argument("--context", help="of kubectl")
    parser.add_argument(
        "--api", action="store_true", help="ask the API server of this pod's cluster"
    )
    parser.add_argument(
        "--from", dest="source", metavar="FILE", help="read this list; - is standard input"
    )
    parser.add_argument("--every", type=float, metavar="SECONDS", help="repeat until it is stopped")
    parser.add_argument(
        "--prefix", default="", help="of names, if several Kubernetes clusters share a folder"
    )
    parser.add_argument(
        "--host", default=Options().host, help="{service}, {namespace}, {name} are replaced"
    )
    parser.add_argument("--within", default=Options().within, help="how long nodes take to come")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a key for every cluster, JSON or text",
    )
    given = parser.parse_args(arguments)
    for name in filter(None, (given.prefix, given.namespace)):
        if not NAMESPACE.fullmatch(name):
            parser.error(f"{name!r} is no name of Kubernetes")
    if not given.folder.is_dir():
        parser.error(f"there is no folder {given.folder}")
    options = Options(given.prefix, given.host, given.within, more_keys(given.set, parser))

    def once() -> int:
        try:
            items = items_of(fetch(given))
        except (OSError, ValueError, KeyError, RecursionError, subprocess.SubprocessError) as error:
            print(f"no list, nothing was changed: {printable(str(error))}", file=sys.stderr)
            return 1
        try:
            for line in write(given.folder, items, options, given.namespace):
                print(line, flush=True)
        except OSError as error:
            print(f"not all files are written: {printable(str(error))}", file=sys.stderr)
            return 1
        return 0

    while given.every:
        once()
        time.sleep(max(given.every, 1))
    return once()


def more_keys(given: list[str], parser: argparse.ArgumentParser) -> Object:
    more: Object = {}
    for pair in given:
        key, found, value = pair.partition("=")
        if not found or not re.fullmatch("[a-z_]+", key):
            parser.error(f"--set {pair!r}: write KEY=VALUE")
        try:
            more[key] = json.loads(value)
        except ValueError:
            more[key] = value
    return more


if __name__ == "__main__":
    sys.exit(main())
