//! `ray-multicluster settings`: the settings in force, and where each comes from.

use multicluster_api::{Setting, SettingSource, Settings};

use super::Context;
use crate::{
    exit::{Exit, Failure},
    output::{Cell, Table, Tone},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only settings whose name contains this; with their meaning.
    name: Option<String>,
    /// Only settings that differ from their default.
    #[arg(long)]
    changed: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let mut answer = context.client.get::<Settings>(&["v1", "settings"], &[]).await?;
    let is_wanted = |name: &str, from: SettingSource| {
        args.name.as_deref().is_none_or(|part| name.contains(part))
            && !(args.changed && from == SettingSource::Default)
    };
    let all = std::mem::take(&mut answer.value.items);
    let wanted: Vec<_> = all.iter().map(|setting| is_wanted(&setting.name, setting.from)).collect();
    if let Some(items) = answer.raw["items"].as_array_mut() {
        let mut wanted = wanted.iter();
        items.retain(|_| wanted.next().copied().unwrap_or(true));
    }
    let shown: Vec<_> =
        all.into_iter().zip(wanted).filter_map(|(setting, is_wanted)| is_wanted.then_some(setting)).collect();
    if let (true, Some(name)) = (shown.is_empty(), &args.name) {
        return Err(Failure::new(Exit::BadInput, format!("no setting has {name} in its name"))
            .hint("ray-multicluster settings lists all of them"));
    }
    if out.is_json() {
        out.json(&answer.raw);
        return Ok(());
    }
    out.table(&table(&shown, args.name.is_some() || out.is_wide()));
    Ok(())
}

fn table(settings: &[Setting], has_meanings: bool) -> Table {
    let columns = ["SETTING", "VALUE", "DEFAULT", "~FROM"];
    let mut table = Table::new(&columns);
    if has_meanings {
        table = Table::new(&["SETTING", "VALUE", "DEFAULT", "FROM", "~MEANING"]);
    }
    for setting in settings {
        let (from, tone) = match setting.from {
            SettingSource::Default => ("default".to_owned(), Tone::Dim),
            SettingSource::File => ("file".to_owned(), Tone::Plain),
            SettingSource::Environment => (setting.env.clone(), Tone::Plain),
        };
        // The same amount may be written in two ways: 60s and 1m.
        let is_default = setting.from == SettingSource::Default;
        let value = if is_default { &setting.default } else { &setting.value };
        let mut row: Vec<Cell> = vec![
            setting.name.as_str().into(),
            value.as_str().into(),
            Cell::new(setting.default.as_str()).tone(Tone::Dim),
            Cell::new(from).tone(tone),
        ];
        row.extend(has_meanings.then(|| setting.doc.as_str().into()));
        table.row(row);
    }
    table
}
