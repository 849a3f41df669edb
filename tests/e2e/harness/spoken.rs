//! The tree that a browser gives to a screen reader.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::browser::Page;

/// Roles of what takes a click, a key or a text.
const CONTROLS: [&str; 10] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "spinbutton",
    "slider",
    "combobox",
    "checkbox",
    "radio",
    "DisclosureTriangle",
];

/// What a screen reader can say of a page.
#[derive(Debug)]
pub struct SpokenPage {
    nodes: Vec<SpokenNode>,
}

/// A node of the tree that is not ignored.
#[derive(Debug)]
pub struct SpokenNode {
    pub role: String,
    pub name: String,
    properties: HashMap<String, Value>,
    /// Indexes of the nodes above, the nearest first.
    above: Vec<usize>,
}

impl Page {
    /// Reads the page as a screen reader does.
    pub async fn spoken(&mut self) -> SpokenPage {
        let tree = self.call("Accessibility.getFullAXTree", json!({})).await;
        SpokenPage::of(tree["nodes"].as_array().unwrap())
    }
}

impl SpokenPage {
    fn of(tree: &[Value]) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let parents: HashMap<&str, &str> = (tree.iter())
            .filter_map(|node| Some((node["nodeId"].as_str()?, node["parentId"].as_str()?)))
            .collect();
        let kept: Vec<&Value> = (tree.iter())
            .filter(|node| node["ignored"] == false)
            .collect();
        let indexes: HashMap<&str, usize> = (kept.iter().enumerate())
            .map(|(index, node)| (node["nodeId"].as_str().unwrap(), index))
            .collect();
        let nodes = kept.iter().map(|node| {
            let mut above = Vec::new();
            let mut id = node["nodeId"].as_str().unwrap();
            while let Some(parent) = parents.get(id) {
                above.extend(indexes.get(parent));
                id = parent;
            }
            let properties = node["properties"].as_array().into_iter().flatten();
            let properties = properties
                .map(|property| (text(&property["name"]), property["value"]["value"].clone()));
            SpokenNode {
                role: text(&node["role"]["value"]),
                name: text(&node["name"]["value"]).trim().to_owned(),
                properties: properties.collect(),
                above,
            }
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// The nodes of a role.
    pub fn role(&self, role: &str) -> impl Iterator<Item = &SpokenNode> {
        self.nodes.iter().filter(move |node| node.role == role)
    }

    /// The names of the nodes of a role.
    pub fn names(&self, role: &str) -> Vec<&str> {
        self.role(role).map(|node| &*node.name).collect()
    }

    /// Controls, and whatever else takes the focus.
    pub fn controls(&self) -> impl Iterator<Item = &SpokenNode> {
        self.nodes.iter().filter(|node| {
            CONTROLS.contains(&&*node.role)
                || (node.is("focusable") && !["RootWebArea", "main"].contains(&&*node.role))
        })
    }

    /// Nodes that are said by themselves when they change, at once or after what is being said.
    pub fn live(&self) -> impl Iterator<Item = (&SpokenNode, &str)> {
        self.nodes.iter().filter_map(|node| {
            let live = node.properties.get("live")?.as_str()?;
            (live != "off").then_some((node, live))
        })
    }

    /// The nodes of a role below a node.
    pub fn below<'s>(&'s self, node: &'s SpokenNode, role: &'s str) -> Vec<&'s SpokenNode> {
        let index = self
            .nodes
            .iter()
            .position(|other| std::ptr::eq(other, node));
        let index = index.expect("a node of this page");
        self.role(role)
            .filter(|other| other.above.contains(&index))
            .collect()
    }

    /// Whether some node above has one of these roles.
    pub fn is_within(&self, node: &SpokenNode, roles: &[&str]) -> bool {
        let mut above = node.above.iter();
        above.any(|index| roles.contains(&&*self.nodes[*index].role))
    }
}

impl SpokenNode {
    fn is(&self, property: &str) -> bool {
        self.properties.get(property) == Some(&Value::Bool(true))
    }

    /// The value of a property, as a number.
    pub fn number(&self, property: &str) -> Option<u64> {
        self.properties.get(property)?.as_u64()
    }
}
