//! The user's folder below each stand-in's home.
//!
//! On a real pool every machine has its own checkout of the users' programs, below its own
//! home; a job names one by its path on the submitting machine, and the path is translated.
//! Here a link below each stand-in's home takes the place of the checkout.

use std::{
    fs,
    os::unix,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use super::state;

/// Where `project` is below every home: at the same place as below the user's own. A folder
/// outside of it needs no translation; it gets a place all the same, for PYTHONPATH.
/// None for what cannot be linked: a home itself, or one around it.
pub(super) fn place(project: &Path, user_home: Option<&Path>) -> Option<PathBuf> {
    if user_home.is_some_and(|home| home.starts_with(project)) {
        return None;
    }
    match user_home.and_then(|home| project.strip_prefix(home).ok()) {
        Some(below) => Some(below.to_owned()),
        None => Some(Path::new("project").join(project.file_name()?)),
    }
}

/// Links `project` at `place` below `home`, and says where.
pub(super) fn link(project: &Path, home: &Path, place: &Path) -> anyhow::Result<PathBuf> {
    let link = home.join(place);
    if let Some(folder) = link.parent() {
        state::make_dir(folder)?;
    }
    match fs::symlink_metadata(&link) {
        Ok(found) if found.is_symlink() => state::remove(&link)?,
        Ok(_) => bail!("{} is in the way of a link to {}", link.display(), project.display()),
        Err(_) => {}
    }
    unix::fs::symlink(project, &link).with_context(|| format!("cannot link {}", link.display()))?;
    Ok(link)
}

/// Takes a link away, and the folders that it leaves empty up to `dir`.
pub(super) fn unlink(link: &Path, dir: &Path) -> anyhow::Result<()> {
    if fs::symlink_metadata(link).is_ok_and(|found| found.is_symlink()) {
        state::remove(link)?;
    }
    for folder in link.ancestors().skip(1).take_while(|folder| folder.starts_with(dir) && *folder != dir) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_the_same_place_below_every_home() {
        let home = Some(Path::new("/home/you"));
        let at = |project| place(Path::new(project), home);
        assert_eq!(at("/home/you/src/quant"), Some("src/quant".into()));
        assert_eq!(at("/srv/quant"), Some("project/quant".into()));
        assert_eq!(at("/home/you"), None);
        assert_eq!(at("/"), None);
        assert_eq!(place(Path::new("/srv/quant"), None), Some("project/quant".into()));
    }
}
