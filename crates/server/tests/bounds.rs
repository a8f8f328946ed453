//! The table of bounds in `src/front/README.md` agrees with the constants.

use std::{fs, path::Path};

#[test]
fn the_table_of_bounds_is_true() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let readme = fs::read_to_string(src.join("front/README.md")).unwrap();
    let mut compared = 0;
    for row in readme.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, _, constant, _, file, _] = cells[..] else { continue };
        let (Some(constant), Some(file)) = (quoted(constant), quoted(file)) else { continue };
        let text = fs::read_to_string(src.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("const {constant};")), "{file} has no constant {constant}");
        compared += 1;
    }
    assert!(compared > 30, "only {compared} rows were read");
}

fn quoted(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}
