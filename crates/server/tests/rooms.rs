//! Imports between the rooms of this crate go one way, and inside a room no module imports itself,
//! not even by a detour. Tests may import what they like.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// From top to bottom: a room imports itself and the rooms below. `""` is everything at the root.
const ROOMS: [&str; 5] = ["process", "front", "engine", "clusters", ""];

#[test]
fn imports_go_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut siblings = BTreeMap::<Vec<String>, BTreeSet<Vec<String>>>::new();
    for file in sources(&src) {
        let here = module(file.strip_prefix(&src).unwrap());
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for there in imports(text, &here) {
            let (from, to) = (room(&here), room(&there));
            assert!(from <= to, "{} imports {}", here.join("::"), there.join("::"));
            if from == to && here.len() > 1 && there.len() > 1 && here[1] != there[1] {
                siblings.entry(here[..2].to_vec()).or_default().insert(there[..2].to_vec());
            }
        }
    }
    for module in siblings.keys() {
        assert!(
            !reached(module, &siblings).contains(module),
            "{} imports itself by a detour",
            module.join("::")
        );
    }
    assert!(siblings.len() > 5, "nothing was read");
}

/// Every module that this one imports, itself or through others.
fn reached(
    module: &[String],
    imports: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
) -> BTreeSet<Vec<String>> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![module.to_vec()];
    while let Some(next) = ahead.pop() {
        let new = imports.get(&next).into_iter().flatten().filter(|other| reached.insert((*other).clone()));
        ahead.extend(new.cloned());
    }
    reached
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_test =
        |path: &PathBuf| ["tests", "soak"].iter().any(|name| path.file_stem() == Some(name.as_ref()));
    let below = folders.into_iter().filter(|path| !is_test(path)).flat_map(|folder| sources(&folder));
    let rust = |path: &PathBuf| path.extension().is_some_and(|end| end == "rs") && !path.ends_with("lib.rs");
    files.into_iter().filter(rust).filter(|path| !is_test(path)).chain(below).collect()
}

fn module(file: &Path) -> Vec<String> {
    file.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect()
}

fn room(module: &[String]) -> usize {
    ROOMS.iter().position(|room| module.first().is_some_and(|first| first == room)).unwrap_or(ROOMS.len() - 1)
}

/// Every path of the crate that is used here: `crate::a::{b, c::d}` are `a::b` and `a::c::d`.
fn imports(text: &str, here: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        expand(&text[at + "crate::".len()..], &mut Vec::new(), &mut found);
    }
    for (at, _) in text.match_indices("use super::") {
        let mut rest = &text[at + "use ".len()..];
        let mut base = here.to_vec();
        while let Some(above) = rest.strip_prefix("super::") {
            base.pop();
            rest = above;
        }
        expand(rest, &mut base, &mut found);
    }
    found
}

/// Reads one tree of a `use` and returns the text after it.
fn expand<'a>(text: &'a str, base: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches([',', ' ', '\n']);
            if let Some(rest) = rest.strip_prefix('}') {
                return rest;
            }
            // `as another` is ignored.
            rest = expand(rest, &mut base.clone(), found).trim_start_matches(|c| c != ',' && c != '}');
            assert!(!rest.is_empty(), "a tree that does not end");
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    base.push(text[..end].to_owned());
    match text[end..].strip_prefix("::") {
        Some(rest) => expand(rest, base, found),
        None => {
            found.push(base.clone());
            &text[end..]
        }
    }
}
