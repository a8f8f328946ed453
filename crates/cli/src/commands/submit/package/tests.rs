use super::*;

/// A folder of a test's own.
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

#[test]
fn the_name_is_that_of_the_sdk() {
    let files =
        [("a.py", "print(1)"), ("sub/b.txt", "b"), ("a-b.txt", "x"), ("a/b.txt", "y"), ("a/run.sh", "#!")];
    let folder = Folder::new("name", &files);
    fs::set_permissions(folder.0.join("a/run.sh"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::create_dir(folder.0.join("empty")).expect("a folder");
    let package = Package::of_folder(&folder.0, &[]).expect("it is packed");
    // ray_multicluster_scheduler._jobs.archive.of_folder(…).digest()[:32]
    assert_eq!(package.name, "_ray_pkg_7facf6a9f80d78e3830f694422bcf59b.zip");
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
    // As large as it likes without a byte on the disk: nobody reads so much to find out.
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
