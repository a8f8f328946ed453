//! `cluster.yaml` for the stand-ins: clusters that differ as real ones do.

use std::{fmt::Write, path::Path};

use super::{stand_in::StandIn, state::Sandbox};

/// `project` is where the user's folder is below every home, if there is one.
pub(super) fn yaml(sandbox: &Sandbox, clusters: &[StandIn], project: Option<&Path>) -> String {
    let mut text = String::from(
        "# Written by `ray-multicluster sandbox up`, removed by `ray-multicluster sandbox down`.\n\
         # Each cluster is one Ray node on this machine, with a home directory of its own.\n\
         clusters:\n",
    );
    for cluster in clusters {
        let home = sandbox.home(&cluster.name);
        let tags = if cluster.name.starts_with("mac") { "macos, arm64" } else { "linux, x86_64" };
        let lines = [
            format!("  - name: {}", quoted(&cluster.name)),
            format!("    head_address: {}", cluster.head_address()),
            format!("    dashboard: {}", cluster.dashboard()),
            format!("    tags: [{tags}]"),
            "    inject_sdk: true # jobs find the Python SDK, although nobody installed it there".into(),
            "    runtime_env:".into(),
            "      env_vars:".into(),
            format!("        home_dir: {}", quoted(&home.to_string_lossy())),
            format!("        CLUSTER_FLAVOUR: {}", quoted(&format!("stand-in for {}", cluster.name))),
        ];
        let python_path = project.map(|project| home.join(project));
        let python_path =
            python_path.map(|path| format!("        PYTHONPATH: {}", quoted(&path.to_string_lossy())));
        for line in lines.into_iter().chain(python_path) {
            writeln!(text, "{line}").expect("a String takes everything");
        }
    }
    text + "scheduler:\n  submission_interval: 10s # 40s where nobody watches\n"
}

/// What JSON quotes, YAML reads.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
