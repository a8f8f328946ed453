//! Whether a file changed. Looking now and then works on every disk, and also where a file is
//! replaced through a link, as Kubernetes does.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime},
};

/// Between two looks.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// What tells that a file is another one than before; `None`: there is none.
pub(crate) type Stamp = Option<(SystemTime, u64, u64)>;

pub(crate) fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len(), found.ino()))
}
