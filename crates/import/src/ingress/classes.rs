//! Decides which Ingresses are those of one controller. Each class has a controller, and each controller has addresses of its own: routes
//! of two classes in one gateway would answer where only one of them does.

use std::collections::BTreeMap;

use super::yaml::YamlNode;
use crate::ledger::Ledger;

/// The class of ingress-nginx unless its chart says otherwise.
const USUAL: &str = "nginx";

/// The beginning of the controllers that ingress-nginx is.
const CONTROLLER: &str = "k8s.io/";
const CONTROLLER_END: &str = "ingress-nginx";

/// The places at which an Ingress names its class; the annotation is older, and comes first.
const ANNOTATION: [&str; 3] = ["metadata", "annotations", "kubernetes.io/ingress.class"];
const SPEC: [&str; 2] = ["spec", "ingressClassName"];

/// The annotation of an IngressClass to which Ingresses without a class belong.
const DEFAULT: [&str; 3] = [
    "metadata",
    "annotations",
    "ingressclass.kubernetes.io/is-default-class",
];

/// Returns the Ingresses of the class that is imported, with those that name none. All others are to be filled in.
pub(super) fn of_one_controller<'n>(
    ingresses: Vec<&'n YamlNode>,
    classes: &[&YamlNode],
    ledger: &mut Ledger,
) -> Vec<&'n YamlNode> {
    let controllers: BTreeMap<&str, &str> =
        classes.iter().filter_map(|it| controller(it)).collect();
    let Some(chosen) = chosen(&ingresses, &controllers) else {
        return ingresses;
    };
    let default = classes.iter().find_map(|it| default_class(it, ledger));
    let (kept, others): (Vec<_>, Vec<_>) = ingresses
        .into_iter()
        .partition(|it| class(it).or(default).is_none_or(|it| it == chosen));
    for ingress in others {
        leave_out(ingress, chosen, ledger);
    }
    for ingress in &kept {
        let nodes = [ingress.at(&ANNOTATION), ingress.at(&SPEC)];
        for id in nodes.into_iter().flatten().flat_map(YamlNode::entries) {
            ledger.translated(id);
        }
    }
    report_controller(&kept, chosen, &controllers, ledger);
    if default.is_none() {
        report_without_class(&kept, chosen, ledger);
    }
    kept
}

/// Returns the name of an IngressClass to which Ingresses without a class belong.
fn default_class<'n>(class: &'n YamlNode, ledger: &mut Ledger) -> Option<&'n str> {
    let node = class.at(&DEFAULT)?;
    node.text().filter(|it| it.trim() == "true")?;
    node.entries()
        .into_iter()
        .for_each(|id| ledger.translated(id));
    class.at(&["metadata", "name"])?.text()
}

/// Returns the name and the controller of an IngressClass.
fn controller(class: &YamlNode) -> Option<(&str, &str)> {
    let name = class.at(&["metadata", "name"])?.text()?;
    Some((name, class.at(&["spec", "controller"])?.text()?))
}

fn class_node(ingress: &YamlNode) -> Option<&YamlNode> {
    ingress.at(&ANNOTATION).or_else(|| ingress.at(&SPEC))
}

fn class(ingress: &YamlNode) -> Option<&str> {
    let class = class_node(ingress)?.text()?.trim();
    (!class.is_empty()).then_some(class)
}

/// Returns true if a class is one of ingress-nginx, by its controller or else by its name.
fn is_of_nginx(class: &str, controllers: &BTreeMap<&str, &str>) -> bool {
    match controllers.get(class) {
        Some(controller) => {
            controller.starts_with(CONTROLLER) && controller.ends_with(CONTROLLER_END)
        }
        None => class.contains(USUAL),
    }
}

/// Returns the class that is imported: `nginx`, or else the one of most Ingresses, those of ingress-nginx before others.
fn chosen<'n>(ingresses: &[&'n YamlNode], controllers: &BTreeMap<&str, &str>) -> Option<&'n str> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for class in ingresses.iter().filter_map(|it| class(it)) {
        match counts.iter_mut().find(|(known, _)| *known == class) {
            Some((_, count)) => *count += 1,
            None => counts.push((class, 1)),
        }
    }
    let strength = |(class, count): &(&str, usize)| {
        let is_own = is_of_nginx(class, controllers);
        (is_own && *class == USUAL, is_own, *count)
    };
    // Of equals the first one.
    let strongest = counts.iter().rev().max_by_key(|it| strength(it));
    strongest.map(|(class, _)| *class)
}

fn leave_out(ingress: &YamlNode, chosen: &str, ledger: &mut Ledger) {
    let reason = format!(
        "its class is another one than {chosen}, and its controller has addresses of its own; import its Ingresses in a file of their own"
    );
    for id in ingress.entries() {
        ledger.left_out(id, reason.clone());
    }
    let node = class_node(ingress).or_else(|| ingress.at(&["metadata", "name"]));
    if let Some(id) = node.and_then(|it| it.entries().first().copied()) {
        ledger.fill_in_for(id, &reason);
    }
}

/// Records Ingresses of a class that is another controller's than ingress-nginx.
fn report_controller(
    kept: &[&YamlNode],
    chosen: &str,
    controllers: &BTreeMap<&str, &str>,
    ledger: &mut Ledger,
) {
    if !is_of_nginx(chosen, controllers) {
        let first = kept.iter().find_map(|it| class_node(it));
        if let Some(id) = first.and_then(|it| it.entries().first().copied()) {
            ledger.fill_in_for(
                id,
                "the class is none of ingress-nginx; its Ingresses are read as ingress-nginx reads them, and its controller may differ",
            );
        }
    }
}

/// Records Ingresses without a class, where no class of the input is that of all such.
fn report_without_class(kept: &[&YamlNode], chosen: &str, ledger: &mut Ledger) {
    for ingress in kept.iter().filter(|it| class(it).is_none()) {
        let name = ingress.at(&["metadata", "name"]).unwrap_or(ingress);
        if let Some(id) = name.entries().first() {
            ledger.fill_in_for(
                *id,
                &format!("it names no class, others name {chosen}; its routes belong here where that is the default class"),
            );
        }
    }
}
