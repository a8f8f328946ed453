//! The resource facts as a dashboard shows them: exact in one endpoint, text in another.

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::node::{Amounts, Node, Physical};
use crate::state::State;

const RAY_COMMIT: &str = "b7f4259e944bf6959f721b106adc366ddfa0c356";

/// `/api/version`
pub(crate) fn version(state: &State) -> Value {
    let mut version = json!({
        "version": "4",
        "ray_version": state.options.ray_version,
        "ray_commit": RAY_COMMIT,
    });
    if state.options.reports_session {
        version["session_name"] = state.session_name.clone().into();
    }
    version
}

/// `/api/v0/cluster_metadata`
pub(crate) fn metadata(state: &State) -> Value {
    let options = &state.options;
    let data = json!({
        "rayVersion": options.ray_version,
        "pythonVersion": options.python_version,
        "rayInitCluster": false,
    });
    json!({"result": true, "msg": "", "data": data})
}

/// `/api/v0/nodes`: exact totals and labels, no usage.
pub(crate) fn nodes(state: &State) -> Value {
    let list: Vec<Value> = state
        .nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let (state, message) = liveness(node);
            json!({
                "node_id": node.id,
                "node_ip": node.ip,
                "is_head_node": index == 0,
                "state": state,
                "state_message": message,
                "node_name": node.ip,
                "resources_total": if node.alive { node.totals(index == 0) } else { Amounts::new() },
                "labels": labels(node, str::to_owned),
            })
        })
        .collect();
    json!({
        "result": true,
        "msg": "",
        "data": {"result": {
            "total": list.len(),
            "num_after_truncation": list.len(),
            "num_filtered": list.len(),
            "result": list,
            "partial_failure_warning": "",
            "warnings": null,
        }},
    })
}

/// `/nodes?view=summary`: host load per node, and logical usage as text.
pub(crate) fn summary(state: &State, now: Instant) -> Value {
    let usage = state.shown_usage(now);
    let now_s = state.clock.ms(now) as f64 / 1000.0;
    let rows = || state.nodes.iter().zip(&usage).enumerate();
    let list: Vec<Value> =
        rows().map(|(index, (node, used))| node_summary(node, index == 0, used, now_s)).collect();
    let texts: Map<String, Value> = rows()
        .filter(|(_, (node, _))| node.alive)
        .map(|(index, (node, used))| {
            (node.id.clone(), usage_lines(&node.totals(index == 0), used).join("\n").into())
        })
        .collect();
    json!({
        "result": true,
        "msg": "Node summary fetched.",
        "data": {"summary": list, "nodeLogicalResources": texts},
    })
}

fn node_summary(node: &Node, is_head: bool, used: &Amounts, now_s: f64) -> Value {
    let (state, message) = liveness(node);
    let totals = node.totals(is_head);
    let raylet = json!({
        "nodeId": node.id,
        "nodeManagerAddress": node.ip,
        "nodeManagerPort": 43085,
        "objectManagerPort": 43939,
        "nodeManagerHostname": node.ip,
        "resourcesTotal": totals.iter().map(|(name, amount)| (camel(name), json!(amount))).collect::<Map<_, _>>(),
        "nodeName": node.ip,
        "isHeadNode": is_head,
        "labels": labels(node, camel),
        "dashboardAgentListenPort": 52365,
        "state": state,
        "stateMessage": message,
    });
    if !node.alive {
        return json!({"raylet": raylet});
    }
    let share = |name: &str| {
        let total = totals.get(name).copied().unwrap_or(0.0);
        if total > 0.0 { used.get(name).copied().unwrap_or(0.0) / total * 100.0 } else { 0.0 }
    };
    let load = node.physical.unwrap_or_else(|| Physical { cpu: share("CPU"), memory: share("memory") });
    let cores = totals.get("CPU").copied().unwrap_or(1.0).max(1.0);
    let memory = totals.get("memory").copied().unwrap_or(0.0).round();
    let memory_used = (memory * load.memory / 100.0).round();
    let gpus: Vec<Value> = (0u32..)
        .take_while(|index| f64::from(*index) < totals.get("GPU").copied().unwrap_or(0.0))
        .map(|index| gpu(index, share("GPU")))
        .collect();
    let load_average = [cores * load.cpu / 100.0; 3];
    json!({
        "now": now_s,
        "hostname": node.ip,
        "ip": node.ip,
        "cpu": tenths(load.cpu),
        "cpus": [cores, cores],
        "mem": [memory, memory - memory_used, tenths(load.memory), memory_used],
        "hostMem": [memory_used, memory],
        "shm": 0,
        "bootTime": 1_794_783_280.0,
        "loadAvg": [load_average, load_average.map(|load| load / cores)],
        "disk": {"/": {"total": 270_553_174_016_u64, "used": 21_104_312_320_u64, "free": 76_468_436_992_u64, "percent": 21.6}},
        "gpus": gpus,
        "tpus": [],
        "network": [1_221_411, 643_455_394],
        "raylet": raylet,
    })
}

fn gpu(index: u32, percent: f64) -> Value {
    json!({
        "index": index,
        "name": "NVIDIA A10G",
        "uuid": format!("GPU-00000000-0000-0000-0000-{index:012}"),
        "utilizationGpu": percent.round(),
        "memoryUsed": (24_576.0 * percent / 100.0).round(),
        "memoryTotal": 24_576,
        "processesPids": {},
    })
}

fn liveness(node: &Node) -> (&'static str, Option<&'static str>) {
    if node.alive {
        ("ALIVE", None)
    } else {
        ("DEAD", Some("health check failed due to missing too many heartbeats"))
    }
}

fn labels(node: &Node, spell: impl Fn(&str) -> String) -> Map<String, Value> {
    let own = node.spec.labels.iter().map(|(name, value)| (spell(name), json!(value)));
    own.chain([("ray.io/node-id".to_owned(), json!(node.id))]).collect()
}

/// `1.5/4.0 CPU`, `953.67MiB/16.16GiB memory`: sorted, without Ray's own per-node and accelerator resources.
pub(crate) fn usage_lines(totals: &Amounts, used: &Amounts) -> Vec<String> {
    let shown =
        totals.iter().filter(|(name, _)| !name.contains("node:") && !name.starts_with("accelerator_type:"));
    shown
        .map(|(name, total)| {
            let used = used.get(name).copied().unwrap_or(0.0);
            if name == "memory" || name == "object_store_memory" {
                format!("{}/{} {name}", bytes(used), bytes(*total))
            } else {
                format!("{used:?}/{total:?} {name}")
            }
        })
        .collect()
}

fn bytes(amount: f64) -> String {
    for (unit, size) in
        [("TiB", 1_099_511_627_776.0), ("GiB", 1_073_741_824.0), ("MiB", 1_048_576.0), ("KiB", 1024.0)]
    {
        if amount >= size {
            return format!("{:.2}{unit}", amount / size);
        }
    }
    format!("{}B", amount.floor())
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Ray's camelCase: `my_custom_res` is `myCustomRes`, `node:__internal_head__` is `node:InternalHead`.
pub(crate) fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let mut spelled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut after_letter = false;
        for letter in part.chars() {
            if after_letter {
                spelled.extend(letter.to_lowercase())
            } else {
                spelled.extend(letter.to_uppercase())
            }
            after_letter = letter.is_alphabetic();
        }
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_spelling_as_in_ray() {
        assert_eq!(camel("my_custom_res"), "myCustomRes");
        assert_eq!(camel("node:__internal_head__"), "node:InternalHead");
        assert_eq!(camel("object_store_memory"), "objectStoreMemory");
        assert_eq!(camel("node_0f9f547bc6"), "node0F9F547Bc6");
        assert_eq!(camel("CPU"), "CPU");
    }

    #[test]
    fn bytes_are_rounded_to_two_digits() {
        assert_eq!(bytes(0.0), "0B");
        assert_eq!(bytes(1e9), "953.67MiB");
        assert_eq!(bytes(17_354_284_237.0), "16.16GiB");
    }
}
