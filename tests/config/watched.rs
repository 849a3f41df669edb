//! What is read with a configuration is watched with it.

use std::sync::Mutex;

use super::*;

/// The same machine, which remembers what was read.
#[derive(Default)]
struct Mindful(Mutex<BTreeSet<PathBuf>>);

impl Environment for Mindful {
    fn resolve(&self, server: &str) -> io::Result<Vec<SocketAddr>> {
        Still.resolve(server)
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        self.0.lock().unwrap().insert(path.to_owned());
        Still.read(path)
    }

    fn read_bytes(&self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        self.0.lock().unwrap().insert(path.to_owned());
        Still.read_bytes(path, most)
    }

    fn is_open_to_all(&self, path: &Path) -> bool {
        Still.is_open_to_all(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        Still.variable(name)
    }

    fn cores(&self) -> usize {
        Still.cores()
    }

    fn exports_spans(&self) -> bool {
        Still.exports_spans()
    }
}

/// Goal: a file that a configuration names is never forgotten when it changes. Method: what reading asks the machine for, in every good
/// file and in the reference with all its keys, against what the rules say is watched.
#[test]
fn every_file_that_is_read_is_watched() {
    let paths = files("tests/config/good").into_iter();
    let texts = paths.map(|path| std::fs::read_to_string(path).unwrap());
    let mut all = BTreeSet::new();
    for text in texts.chain([whole_reference()]) {
        let machine = Mindful::default();
        let loaded = parse_in("gateway.toml", &text, &machine, review).unwrap();
        let watched: BTreeSet<PathBuf> = loaded.rules.files().into_iter().collect();
        let read = machine.0.into_inner().unwrap();
        assert_eq!(watched, read, "{text}");
        all.extend(read);
    }
    assert!(all.len() > 20, "{all:?}");
}
