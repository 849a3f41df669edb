//! Divides addresses and methods into parts, in each of which every condition has one truth.
//!
//! Conditions on addresses and methods name sets that contain each other or overlap. The parts exclude each other, so a request belongs to
//! one part whatever the order of the routes is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::addresses;

/// The numbers of the conditions that hold in a part.
type HoldingConditions = BTreeSet<usize>;

/// A block of addresses as a condition writes it.
struct NamedBlock<'l> {
    network: IpNet,
    text: &'l str,
    lists: HoldingConditions,
    /// Its place in the order of the conditions.
    order: usize,
}

/// Returns the parts into which lists of blocks divide addresses, in the order in which they are named. A part is written as the gateway
/// writes it: blocks, and with `!` the blocks within them that belong to other parts.
pub(super) fn clients(lists: &[&[String]]) -> Vec<Vec<String>> {
    let mut parts: BTreeMap<HoldingConditions, (usize, Vec<String>)> = BTreeMap::new();
    // The blocks around the current one, the innermost last.
    let mut around: Vec<NamedBlock<'_>> = Vec::new();
    for mut block in named_blocks(lists) {
        while around
            .last()
            .is_some_and(|outer| !outer.network.contains(&block.network))
        {
            around.pop();
        }
        if let Some(outer) = around.last() {
            block.lists.extend(&outer.lists);
            if block.lists != outer.lists
                && let Some((_, blocks)) = parts.get_mut(&outer.lists)
            {
                blocks.push(format!("!{}", block.text));
            }
        }
        let is_within_same = around.last().is_some_and(|it| it.lists == block.lists);
        let part = parts
            .entry(block.lists.clone())
            .or_insert_with(|| (block.order, Vec::new()));
        part.0 = part.0.min(block.order);
        if !is_within_same {
            part.1.push(block.text.to_owned());
        }
        around.push(block);
    }
    let mut parts: Vec<(usize, Vec<String>)> = parts.into_values().collect();
    parts.sort_by_key(|(order, _)| *order);
    parts.into_iter().map(|(_, blocks)| blocks).collect()
}

/// Returns each block once, an outer one before those within it.
fn named_blocks<'l>(lists: &[&'l [String]]) -> Vec<NamedBlock<'l>> {
    let mut blocks: BTreeMap<(IpAddr, u8), NamedBlock<'l>> = BTreeMap::new();
    let mut order = 0;
    for (list, texts) in lists.iter().enumerate() {
        for text in texts.iter() {
            let Some(network) = addresses::network(text) else {
                continue;
            };
            order += 1;
            let block = blocks
                .entry((network.network(), network.prefix_len()))
                .or_insert_with(|| NamedBlock {
                    network,
                    text,
                    lists: HoldingConditions::new(),
                    order,
                });
            block.lists.insert(list);
        }
    }
    blocks.into_values().collect()
}

/// Returns the parts into which lists of methods divide requests, in the order in which they are named.
pub(super) fn methods(lists: &[&[String]]) -> Vec<Vec<String>> {
    let mut holding: BTreeMap<&str, HoldingConditions> = BTreeMap::new();
    let mut named: Vec<&str> = Vec::new();
    for (list, methods) in lists.iter().enumerate() {
        for method in methods.iter() {
            if !named.contains(&method.as_str()) {
                named.push(method);
            }
            holding.entry(method).or_default().insert(list);
        }
    }
    if named.contains(&"GET") && !named.contains(&"HEAD") {
        named.push("HEAD");
        holding.entry("HEAD").or_default();
    }
    // A route for GET takes HEAD too unless one names HEAD, which comes before it.
    named.sort_by_key(|method| *method != "HEAD");
    let mut parts: Vec<(&HoldingConditions, Vec<String>)> = Vec::new();
    for method in named {
        let lists = &holding[method];
        match parts.iter_mut().find(|(known, _)| *known == lists) {
            Some((_, methods)) => methods.push(method.to_owned()),
            None => parts.push((lists, vec![method.to_owned()])),
        }
    }
    parts.into_iter().map(|(_, methods)| methods).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|it| (*it).to_owned()).collect()
    }

    /// Goal: an address belongs to one part, with the blocks that contain it. Method: blocks within each other in either order, a block
    /// within one of the same list, equal blocks in two spellings, both families.
    #[test]
    fn an_address_belongs_to_one_part() {
        let parts = |lists: &[&[&str]]| {
            let lists: Vec<Vec<String>> = lists.iter().map(|it| list(it)).collect();
            let lists: Vec<&[String]> = lists.iter().map(Vec::as_slice).collect();
            clients(&lists)
        };
        assert_eq!(
            parts(&[&["10.0.0.0/8"], &["10.1.0.0/16"]]),
            [
                list(&["10.0.0.0/8", "!10.1.0.0/16"]),
                list(&["10.1.0.0/16"])
            ]
        );
        assert_eq!(
            parts(&[
                &["10.1.1.1"],
                &["10.1.0.0/16", "::1"],
                &["10.0.0.0/8", "10.1.1.1/32"]
            ]),
            [
                list(&["10.1.1.1"]),
                list(&["10.1.0.0/16", "!10.1.1.1"]),
                list(&["::1"]),
                list(&["10.0.0.0/8", "!10.1.0.0/16"]),
            ]
        );
        assert_eq!(
            parts(&[&["10.0.0.0/8", "10.1.0.0/16"]]),
            [list(&["10.0.0.0/8"])]
        );
    }

    /// Goal: a method belongs to one part, and HEAD never to that of GET alone. Method: lists that overlap, GET with and without HEAD.
    #[test]
    fn a_method_belongs_to_one_part() {
        let read = list(&["GET", "HEAD"]);
        let write = list(&["GET", "POST"]);
        assert_eq!(
            methods(&[&read, &write]),
            [list(&["HEAD"]), list(&["GET"]), list(&["POST"])]
        );
        assert_eq!(
            methods(&[&write]),
            [list(&["HEAD"]), list(&["GET", "POST"])]
        );
        assert_eq!(methods(&[&read]), [list(&["HEAD", "GET"])]);
    }
}
