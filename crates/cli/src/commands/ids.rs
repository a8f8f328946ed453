//! Ids as people type them: the beginning of an id is enough if only one job's id begins so.

use super::filter::{self, PAGE};
use crate::{
    client::Client,
    exit::{Exit, Failure},
};

/// How many candidates an error names.
const NAMED: usize = 5;
/// The server finds ids that contain the text; more pages of them are not looked through.
const PAGES: usize = 10;

/// Reads about the job with this id, or else about the only job whose id begins so.
pub(super) async fn read<T>(
    typed: &str,
    client: &Client,
    read: impl AsyncFn(&str) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match read(typed).await {
        Err(unknown) if unknown.exit == Exit::NotFound => read(&meant(typed, client, unknown).await?).await,
        answer => answer,
    }
}

/// The only job whose id begins so; there is none with exactly this id.
pub(super) async fn meant(typed: &str, client: &Client, unknown: Failure) -> Result<String, Failure> {
    let (mut found, mut pages) = (Vec::new(), 0);
    let query = [("id", typed.to_owned()), ("limit", PAGE.to_string())];
    filter::pages(client, &query, |page| {
        let ids = page.value.items.into_iter().map(|job| job.id);
        found.extend(ids.filter(|id| id.starts_with(typed)));
        pages += 1;
        found.len() <= NAMED && pages < PAGES
    })
    .await?;
    if found.len() <= 1 {
        return found.pop().ok_or(unknown);
    }
    let more = if found.len() > NAMED { ", …" } else { "" };
    found.truncate(NAMED);
    let message = format!("several jobs have an id that begins with {typed}: {}{more}", found.join(", "));
    Err(Failure::new(Exit::BadInput, message).hint("type more of the id"))
}
