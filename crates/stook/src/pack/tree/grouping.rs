//! [`Grouping`]: which records are stored together.

/// Which group a file goes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Grouping {
    /// None was asked for: all into the default group.
    #[default]
    Default,
    /// All into this one.
    Named(String),
    /// One group for each first part of the path; what stands at the top goes to the default group.
    Top,
    /// This many groups, by a hash of the path.
    Hash(u32),
}

impl Grouping {
    pub(super) fn of(&self, key: &[u8], is_directory: bool) -> String {
        match self {
            Self::Default => String::new(),
            Self::Named(name) => name.clone(),
            Self::Top => {
                let mut parts = key.split(|byte| *byte == b'/');
                let top = parts.next().unwrap_or_default();
                let below = parts.next().is_some() || is_directory;
                let name = String::from_utf8_lossy(if below { top } else { b"" }).into_owned();
                // A group's name has at most 255 bytes, and replacing what is not UTF-8 makes it
                // longer.
                let end = (0..=name.len().min(255)).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
                name.get(..end).unwrap_or_default().to_owned()
            }
            Self::Hash(groups) => format!("{:04}", crc32c::crc32c(key) % (*groups).max(1)),
        }
    }
}
