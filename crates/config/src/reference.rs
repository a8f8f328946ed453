//! The reference of all configuration, generated from the tables that the checks use.

use std::fmt::Write;

use multicluster_types::Settings;

use crate::{
    FILE_KEYS, clusters,
    env::{RETIRED, variable},
    policies, shares, sso,
};

/// Markdown tables of the keys of a cluster, the settings, and the other sections.
#[must_use]
pub fn reference() -> String {
    let mut page = String::new();
    let described = |keys: &[(&'static str, &'static str, Option<&'static str>, &'static str)]| {
        let row = |&(name, expected, default, doc): &(&str, &str, Option<&str>, &str)| {
            let default = default.map_or("required".to_owned(), code_unless_words);
            vec![code(name), expected.to_owned(), default, doc.to_owned()]
        };
        keys.iter().map(row).collect::<Vec<_>>()
    };
    let rows = described(&FILE_KEYS);
    table(&mut page, "The file", &["key", "what to write", "default", "meaning"], rows.into_iter());
    table(
        &mut page,
        "`clusters:`",
        &["key", "what to write", "default", "meaning"],
        clusters::KEYS.iter().map(|key| {
            let default = key.default.map_or("required".to_owned(), code_unless_words);
            vec![code(key.name), key.expected.to_owned(), default, key.doc.to_owned()]
        }),
    );
    table(
        &mut page,
        "`scheduler:`",
        &["setting", "what to write", "default", "meaning", "environment"],
        Settings::DEFINITIONS.iter().map(|setting| {
            let names = std::iter::once(&setting.name).chain(setting.aliases);
            let variables: Vec<String> = names.map(|name| code(&variable(name))).collect();
            vec![
                code(setting.name),
                setting.expected.to_owned(),
                code(setting.default),
                setting.doc.split_whitespace().collect::<Vec<_>>().join(" "),
                variables.join(", "),
            ]
        }),
    );
    table(
        &mut page,
        "`policies:`, a list under `scheduler:`",
        &["key", "meaning"],
        policies::KEYS.iter().map(|(name, doc)| vec![code(name), (*doc).to_owned()]),
    );
    table(
        &mut page,
        "Built-in policies",
        &["name", "prefers"],
        multicluster_core::policy::built_ins().map(|(name, prefers)| vec![code(name), prefers.to_owned()]),
    );
    for (title, keys) in [
        ("`shares:`", &shares::KEYS[..]),
        ("`owners:`, a mapping under `shares:`", &shares::OWNER_KEYS[..]),
        ("`trusted_proxy:`", &sso::PROXY_KEYS[..]),
        ("`jwt:`, a list of issuers", &sso::JWT_KEYS[..]),
    ] {
        let rows = described(keys);
        table(&mut page, title, &["key", "what to write", "default", "meaning"], rows.into_iter());
    }
    table(
        &mut page,
        "Settings that are gone",
        &["setting", "instead"],
        RETIRED.iter().map(|(name, instead)| vec![code(name), (*instead).to_owned()]),
    );
    page
}

fn table(page: &mut String, title: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let gap = if page.is_empty() { "" } else { "\n" };
    let rule = columns.iter().map(|_| "---").collect::<Vec<_>>().join(" | ");
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{gap}## {title}\n\n| {} |\n| {rule} |", columns.join(" | "));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Formats a default as code if it is a value, rather than a description.
fn code_unless_words(default: &str) -> String {
    if default.contains(' ') { default.to_owned() } else { code(default) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_setting_is_in_the_reference() {
        let page = reference();
        let names = clusters::KEYS.iter().map(|key| key.name);
        for name in names.chain(Settings::DEFINITIONS.iter().map(|d| d.name)) {
            assert!(page.contains(&format!("\n| `{name}` | ")), "{name}");
        }
        assert!(page.contains("`SCHEDULER_SUBMISSION_INTERVAL`, `SCHEDULER_SUBMISSION_WAIT_TIME`"), "{page}");
    }

    #[test]
    fn every_row_has_the_cells_of_its_table() {
        let mut cells = 0;
        for line in reference().lines() {
            let here = line.replace("\\|", "").matches('|').count();
            assert!(here == 0 || cells == 0 || here == cells, "{line}");
            cells = here;
        }
    }

    #[test]
    fn a_setting_is_shown_with_all_there_is_to_know() {
        let row = |name: &str| {
            reference().lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap().to_owned()
        };
        insta::assert_snapshot!(row("max_queue"), @"| `max_queue` | a whole number from 0 | `100000` | How many jobs one queue may hold (jobs and tasks separately, global and per cluster); more are refused. | `SCHEDULER_MAX_QUEUE`, `SCHEDULER_TASK_QUEUE_MAX_SIZE` |");
        insta::assert_snapshot!(row("dashboard"), @"| `dashboard` | an `http://` or `https://` URL | required | The dashboard, whose REST API runs and watches jobs. |");
    }
}
