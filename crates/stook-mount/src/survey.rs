//! What is in a tree that never changes: counted once, when it is mounted.

use stook::names::escaped;
use stook::tree::{Cursor, Kind, Node, NodeId, Page, Tree};

use crate::attributes::BLOCK;
use crate::status::{Hidden, STATUS_NAME};

/// The longest name that the system takes, in bytes.
pub(crate) const NAME_LEN_MAX: usize = 255;

/// The longest path that a symbolic link can lead to there, in bytes.
const TARGET_LEN_MAX: u64 = 4095;

/// Counts of a tree.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Files, directories and all else that is shown.
    pub(crate) nodes: u64,
    /// Blocks that their bytes fill.
    pub(crate) blocks: u64,
    /// The length of the longest file.
    pub(crate) longest: u64,
    /// Entries of the directory that has the most.
    pub(crate) most_entries: u64,
    /// Whether counts are what they are at most, because not all of the tree was read.
    pub(crate) is_outline: bool,
    /// What is not shown.
    pub(crate) hidden: Hidden,
}

impl Survey {
    /// Goes through all below a node. What cannot be listed is met again, and reported, where it is
    /// asked for.
    pub(crate) fn of(tree: &dyn Tree, root: NodeId) -> stook::Result<Self> {
        if root == tree.root()
            && let Some(survey) = Self::outlined(tree)
        {
            return Ok(survey);
        }
        let mut survey = Self::default();
        let root_node = tree.node(root)?;
        survey.count(&root_node);
        let (mut waiting, mut page) = (Vec::new(), Page::new());
        if root_node.kind == Kind::Directory {
            waiting.push(root);
        }
        while let Some(directory) = waiting.pop() {
            let (mut cursor, mut entries) = (Some(Cursor::Start), 0);
            while let Some(from) = cursor {
                let Ok(next) = tree.list(directory, &from, &mut page) else { break };
                cursor = next;
                for entry in page.iter() {
                    let Ok(node) = entry.node.map_or_else(|| tree.node(entry.id), Ok) else { continue };
                    if let Some(why) = refusal(entry.name, &node, directory == root) {
                        survey.hide(tree, directory, entry.name, why);
                        continue;
                    }
                    survey.count(&node);
                    entries += 1;
                    if node.kind == Kind::Directory {
                        waiting.push(entry.id);
                    }
                }
            }
            survey.most_entries = survey.most_entries.max(entries);
        }
        Ok(survey)
    }

    /// What is known without going through all, where a tree would have to read for that.
    fn outlined(tree: &dyn Tree) -> Option<Self> {
        let (mut survey, root) = (Self { is_outline: true, ..Self::default() }, tree.root());
        let outline = tree.outline(&mut |directory, name| {
            // Kinds are not known yet: one that cannot be shown is met where it is listed.
            if let Some(why) = refusal(name, &Node::file(0), directory == root) {
                survey.hide(tree, directory, name, why);
            }
        })?;
        survey.nodes = outline.nodes.saturating_sub(survey.hidden.entries);
        survey.blocks = outline.bytes_max.div_ceil(BLOCK);
        survey.longest = outline.longest_max;
        survey.most_entries = outline.most_entries;
        Some(survey)
    }

    fn count(&mut self, node: &Node) {
        self.nodes += 1;
        if node.kind == Kind::File {
            self.blocks = self.blocks.saturating_add(node.len.div_ceil(BLOCK));
            self.longest = self.longest.max(node.len);
        }
    }

    fn hide(&mut self, tree: &dyn Tree, directory: NodeId, name: &[u8], why: &str) {
        let path = tree.path_of(directory);
        let path = path.strip_prefix(tree.path()).unwrap_or(&path).join(escaped(name).to_string());
        self.hidden.note(&format!("{}: {why}", path.display()));
    }
}

/// Why an entry cannot be shown, if it cannot. Names of trees have no slashes and no zero bytes.
pub(crate) fn refusal(name: &[u8], node: &Node, is_in_root: bool) -> Option<&'static str> {
    if name.len() > NAME_LEN_MAX {
        return Some("its name has more than 255 bytes");
    }
    if is_in_root && name == STATUS_NAME.as_bytes() {
        return Some("its name is that of the status of the mount");
    }
    match node.kind {
        Kind::Other => Some("the system has no such kind of file"),
        Kind::Symlink if node.len > TARGET_LEN_MAX => Some("it leads to a path of more than 4095 bytes"),
        _ => None,
    }
}
