//! Whether a published conclusion holds here.

/// Whether a published conclusion holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    DoesNotHold,
    /// No measurement here could decide it.
    NotMeasured,
}

impl Verdict {
    pub(crate) fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::DoesNotHold }
    }

    /// As tables say it of what was measured here.
    pub fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::NotMeasured => "not measured here",
        }
    }

    /// As tables say it of the figures of a document.
    pub fn text_of_document(self) -> &'static str {
        match self {
            Self::NotMeasured => "cannot be checked",
            other => other.text(),
        }
    }
}
