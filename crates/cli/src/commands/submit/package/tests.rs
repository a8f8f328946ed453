use serde_json::Value;

use super::*;

/// A temporary folder of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("multicluster-package-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        let folder = Self(path);
        files.iter().for_each(|(name, text)| folder.write(name, text.as_bytes()));
        folder
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The expected results of both packers; the Python SDK's tests read the same file.
const VECTORS: &str = include_str!("../../../../../../tests/vectors/packing.json");

#[test]
fn a_folder_is_packed_as_the_vectors_say() {
    let vectors: Value = serde_json::from_str(VECTORS).expect("JSON");
    for (number, case) in vectors["cases"].as_array().expect("cases").iter().enumerate() {
        let folder = Folder::new(&format!("vector-{number}"), &[]);
        let root = folder.0.join(case["module"].as_str().unwrap_or("folder"));
        fs::create_dir(&root).expect("a folder");
        let tree = case["tree"].as_str().expect("a name");
        for (name, content) in vectors["trees"][tree].as_object().expect("a tree") {
            lay_out(&root.join(name), content);
        }
        let excludes: Vec<String> = serde_json::from_value(case["excludes"].clone()).expect("patterns");
        let is_module = case["module"].is_string();
        let packed = if is_module {
            Package::of_module(&root, &excludes)
        } else {
            Package::of_folder(&root, &excludes)
        };
        if let Some(refused) = case["refused"].as_str() {
            let failure = packed.err().expect("it is refused");
            assert!(failure.message.contains(refused), "{case}: {failure}");
            continue;
        }
        let package = packed.expect("it is packed");
        let zip = zip::ZipArchive::new(Cursor::new(package.content)).expect("a zip");
        let names: Vec<String> =
            (0..zip.len()).filter_map(|n| Some(zip.name_for_index(n)?.ok()?.into_owned())).collect();
        assert_eq!(serde_json::json!(names), case["packed"], "{case}");
        assert_eq!(package.name, case["package"], "{case}");
    }
}

fn lay_out(path: &Path, content: &Value) {
    let folder = if content.is_null() { path } else { path.parent().expect("below the folder") };
    fs::create_dir_all(folder).expect("a folder");
    if let Some(text) = content.as_str().or_else(|| content["program"].as_str()) {
        fs::write(path, text).expect("a file");
        let mode = if content.is_object() { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    } else if let Some(target) = content["link"].as_str() {
        std::os::unix::fs::symlink(target, path).expect("a link");
    } else if let Some(size) = content["bytes"].as_u64() {
        // A sparse file takes no space on disk.
        fs::File::create(path).and_then(|file| file.set_len(size)).expect("a sparse file");
    }
}

#[test]
fn the_same_files_give_the_same_package() {
    let files = [("a.py", "print(1)"), ("sub/b.txt", "b")];
    let (one, two) = (Folder::new("one", &files), Folder::new("two", &files));
    let pack = |folder: &Folder| Package::of_folder(&folder.0, &[]).expect("it is packed");
    assert_eq!(pack(&one).content, pack(&two).content);
    two.write("sub/b.txt", b"c");
    assert_ne!(pack(&one).name, pack(&two).name);
    fs::set_permissions(one.0.join("a.py"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    two.write("sub/b.txt", b"b");
    assert_ne!(pack(&one).name, pack(&two).name, "a program is not a file");
}

#[test]
fn a_folder_that_is_too_large_names_its_largest_entries() {
    let folder = Folder::new("large", &[("small.py", "")]);
    folder.write("data/big.bin", b"");
    let big = fs::OpenOptions::new().write(true).open(folder.0.join("data/big.bin")).expect("a file");
    // A sparse file takes no space on disk. A file of this size is refused without reading it.
    big.set_len(HOPELESS_BYTES + 1).expect("a sparse file");
    let failure = Package::of_folder(&folder.0, &[]).err().expect("it is refused");
    assert_eq!(failure.exit, Exit::BadInput);
    assert!(failure.message.contains("largest: data (1000.0 MiB), small.py (0.0 MiB)"), "{failure}");
    assert!(Package::of_folder(&folder.0, &["data".to_owned()]).is_ok());
    assert_eq!(
        Bounded(Cursor::new(Vec::new())).write(&vec![0; 101 << 20]).map_err(|e| e.kind()),
        Err(io::ErrorKind::FileTooLarge)
    );
}

#[test]
fn links_are_followed_but_not_in_circles() {
    let folder = Folder::new("links", &[("real/a.txt", "a")]);
    std::os::unix::fs::symlink("real", folder.0.join("link")).expect("a link");
    std::os::unix::fs::symlink("..", folder.0.join("real/up")).expect("a link");
    std::os::unix::fs::symlink("nowhere", folder.0.join("broken")).expect("a link");
    let mut entries = Vec::new();
    walk(&folder.0, Path::new(""), &[&Ignores::of_working_dir(&[])], &mut Vec::new(), &mut entries)
        .expect("it is read");
    let mut names: Vec<_> = entries.iter().map(|entry| entry.name.display().to_string()).collect();
    names.sort();
    assert_eq!(names, ["link/a.txt", "real/a.txt"]);
}
