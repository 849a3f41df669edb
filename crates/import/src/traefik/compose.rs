//! Reads Compose files: the configuration of the service that runs Traefik, then the labels of those that it publishes.
//!
//! Traefik reads a file, or else its arguments, or else its environment, and never two of them.

use super::account::TreeAccount;
use super::kubernetes::ClusterObjects;
use super::labels::{self, NamedSetting, settings};
use super::notations::TraefikConfig;
use super::publication::PublicationRules;
use super::tree::{self, member, merge, text};
use crate::ingress::yaml::YamlNode;
use crate::ledger::EntryId;
use crate::position::SyntaxError;
use crate::source::{IncludedFile, IncludedFiles};

/// The names of the file that Traefik looks for, and the folder.
const FILES: [&str; 3] = ["traefik.yml", "traefik.yaml", "traefik.toml"];
const FOLDER: &str = "/etc/traefik";

/// The reason for which the configuration of Traefik is to be filled in.
const UNREAD: &str = "Traefik's own configuration is in this file: entry points, trusted proxies, and by exposedByDefault and constraints \
    which services are published";

/// A file or folder of the machine that a container has.
pub(super) struct MountedPath<'n> {
    node: &'n YamlNode,
    pub(super) source: String,
    pub(super) target: String,
}

/// Returns a Compose file in which commands are lists; each word that is added is an entry of its own, and joins `entries`.
pub(super) fn with_listed_commands(
    mut document: YamlNode,
    entries: &mut Vec<EntryId>,
    account: &mut TreeAccount<'_>,
) -> YamlNode {
    for command in labels::commands(&mut document) {
        let YamlNode::Scalar { id, text } = &*command else {
            continue;
        };
        let words = shell_words(text).into_iter().map(|word| {
            let part = account.ledger.enter_part(*id, &word);
            tree::scalar(part, word)
        });
        let words = YamlNode::List(words.collect());
        account
            .ledger
            .without_effect(*id, "its words are listed one by one");
        entries.extend(words.entries());
        *command = words;
    }
    document
}

/// Adds what Compose files say to a configuration.
pub(super) fn add(
    config: &mut TraefikConfig,
    documents: &[YamlNode],
    files: &dyn IncludedFiles,
    account: &mut TreeAccount<'_>,
) -> Result<(), SyntaxError> {
    for document in documents {
        for (_, service) in labels::services(document)
            .iter()
            .filter(|it| labels::runs_traefik(&it.1))
        {
            add_static(config, service, files, account)?;
        }
    }
    let rules = PublicationRules::read(config, account);
    for document in documents {
        let found = labels::tree(document, &rules, account);
        merge(&mut config.root, found);
    }
    Ok(())
}

/// Adds the configuration of a service that runs Traefik.
fn add_static(
    config: &mut TraefikConfig,
    service: &YamlNode,
    files: &dyn IncludedFiles,
    account: &mut TreeAccount<'_>,
) -> Result<(), SyntaxError> {
    let arguments = labels::arguments(service);
    let variables = settings(member(service, "environment"), "TRAEFIK_");
    let mounts = mounts(service);
    let found = static_files(&mounts, &arguments, files);
    config.mounts.extend(
        mounts
            .iter()
            .map(|it| (it.target.clone(), it.source.clone())),
    );
    let idle = |settings: &[NamedSetting<'_>], reason: &str, account: &mut TreeAccount<'_>| {
        settings.iter().for_each(|it| account.idle(it.node, reason));
    };
    if let Some((mount, read)) = found {
        let reason = "Traefik has a file, and reads neither arguments nor variables beside it";
        idle(&arguments, reason, account);
        idle(&variables, reason, account);
        let read = match read {
            Ok(read) => read,
            Err(reason) => {
                account.lost(
                    mount.node,
                    "volumes",
                    &format!("{UNREAD}; it cannot be read: {reason}"),
                );
                config.lacks_static = true;
                return Ok(());
            }
        };
        account.translated(mount.node);
        for file in read {
            config.add(
                &file.name,
                &file.text,
                &mut ClusterObjects::default(),
                account,
            )?;
        }
        return Ok(());
    }
    for argument in &arguments {
        labels::add(&mut config.root, argument, &argument.name, account);
    }
    if !arguments.is_empty() {
        idle(
            &variables,
            "Traefik has arguments, and reads no variables beside them",
            account,
        );
        return Ok(());
    }
    for variable in &variables {
        labels::add(
            &mut config.root,
            variable,
            &variable.name.replace('_', "."),
            account,
        );
    }
    Ok(())
}

/// The files that a mounted path is, or the reason for which they cannot be read.
type ReadFiles = Result<Vec<IncludedFile>, String>;

/// Returns the mounted path that has Traefik's configuration, with its files.
fn static_files<'m, 'n>(
    mounts: &'m [MountedPath<'n>],
    arguments: &[NamedSetting<'_>],
    files: &dyn IncludedFiles,
) -> Option<(&'m MountedPath<'n>, ReadFiles)> {
    let named = arguments
        .iter()
        .find(|it| it.name.eq_ignore_ascii_case("configFile"));
    let is_static = |it: &&MountedPath<'_>| {
        let name = it.target.rsplit('/').next().unwrap_or_default();
        match named {
            Some(argument) => it.target == argument.value,
            None => FILES.contains(&name),
        }
    };
    if let Some(mount) = mounts.iter().find(is_static) {
        return Some((mount, files.read(&mount.source)));
    }
    let (folder, names) = match named {
        Some(argument) => argument
            .value
            .rsplit_once('/')
            .map(|(folder, name)| (folder, vec![name]))?,
        None => (FOLDER, FILES.to_vec()),
    };
    let mount = mounts
        .iter()
        .find(|it| it.target.trim_end_matches('/') == folder)?;
    let source = mount.source.trim_end_matches('/');
    let read = |name: &&str| files.read(&format!("{source}/{name}")).ok();
    match names.iter().find_map(read) {
        Some(found) => Some((mount, Ok(found))),
        // The folder may have other files.
        None if named.is_none() && !arguments.is_empty() => None,
        None => Some((
            mount,
            Err(format!("{source} has no {} here", names.join(" and no "))),
        )),
    }
}

/// Returns the paths of the machine that a container has.
fn mounts(service: &YamlNode) -> Vec<MountedPath<'_>> {
    let listed = member(service, "volumes").map(YamlNode::elements);
    let mount = |node| {
        let (source, target) = match text(node, "target") {
            Some(target) => (text(node, "source")?, target),
            None => {
                let mut parts = node.text()?.split(':');
                (parts.next()?, parts.next()?)
            }
        };
        Some(MountedPath {
            node,
            source: source.to_owned(),
            target: target.to_owned(),
        })
    };
    listed
        .unwrap_or_default()
        .iter()
        .filter_map(mount)
        .collect()
}

/// Returns the path of the machine for one of a container.
pub(super) fn path_of_machine(mounts: &[(String, String)], path: &str) -> String {
    let found = mounts.iter().find_map(|(target, source)| {
        let rest = path.strip_prefix(target.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/'))
            .then(|| format!("{}{rest}", source.trim_end_matches('/')))
    });
    found.unwrap_or_else(|| path.to_owned())
}

/// Returns the words of a command as a shell cuts them.
pub(super) fn shell_words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            (c, Some(mark)) if c == mark => quote = None,
            ('\\', None | Some('"')) => open.get_or_insert_default().extend(characters.next()),
            (c, Some(_)) => open.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                open.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(open.take()),
            (c, None) => open.get_or_insert_default().push(c),
        }
    }
    words.extend(open);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a command is cut as Compose cuts it. Method: quotes, escapes, several lines.
    #[test]
    fn commands_are_cut_as_by_a_shell() {
        assert_eq!(
            shell_words("--a=1 --b=\"Label(`x`, `y`)\"\n  --c='d e'f \\\"g"),
            ["--a=1", "--b=Label(`x`, `y`)", "--c=d ef", "\"g"]
        );
        assert!(shell_words("  ").is_empty());
    }

    /// Goal: the file provider's paths are those of the machine. Method: a file, a file in a folder, and a folder of a similar name.
    #[test]
    fn paths_of_containers_are_found_on_the_machine() {
        let mounts = [("/etc/traefik/".to_owned(), "./conf".to_owned())];
        let found = |path: &str| path_of_machine(&mounts, path);
        assert_eq!(found("/etc/traefik"), "./conf");
        assert_eq!(found("/etc/traefik/a.yml"), "./conf/a.yml");
        assert_eq!(found("/etc/traefik2/a.yml"), "/etc/traefik2/a.yml");
    }
}
