//! [`Bars`]: one horizontal bar per thing that is compared, all from zero.

use super::super::html::{append, escape, prose};
use super::super::table::Tone;
use super::super::units::significant;
use super::frame::{CLOSE, unit_note};
use super::scale::TickFormat;

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    label: String,
    value: f64,
    detail: String,
    tone: Tone,
}

impl Bar {
    /// A plain bar of `value`, in the unit of its [`Bars`].
    pub fn new(label: impl Into<String>, value: f64) -> Self {
        Self { label: label.into(), value, detail: String::new(), tone: Tone::Plain }
    }

    /// A few words under the label.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// How much it is to be noticed.
    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

/// A bar chart.
#[derive(Debug, Clone)]
pub struct Bars {
    caption: String,
    unit: String,
    bars: Vec<Bar>,
    reference: Option<(f64, String)>,
}

impl Bars {
    /// A chart of values in `unit`, in the order given. The caption states what is compared.
    pub fn new(caption: impl Into<String>, unit: impl Into<String>, bars: Vec<Bar>) -> Self {
        Self { caption: caption.into(), unit: unit.into(), bars, reference: None }
    }

    /// A line across all bars, such as the limit of the device.
    #[must_use]
    pub fn reference(mut self, value: f64, label: impl Into<String>) -> Self {
        self.reference = Some((value, label.into()));
        self
    }

    pub(in super::super) fn render(&self, html: &mut String) {
        let values = self.bars.iter().map(|bar| bar.value).chain(self.reference.iter().map(|line| line.0));
        let longest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        // Without a positive value every bar has length 0, whatever it is divided by.
        let percent_of = |value: f64| {
            let share = if longest > 0.0 { value / longest } else { 0.0 };
            if share.is_finite() { (share * 100.0).clamp(0.0, 100.0) } else { 0.0 }
        };
        let (caption, unit) = (prose(&self.caption), unit_note(&self.unit));
        append(html, format_args!("<figure class=\"bars\"><figcaption>{caption}{unit}</figcaption>\n<ul>\n"));
        let reference = self.reference.as_ref().map(|(value, _)| percent_of(*value));
        for bar in &self.bars {
            self.render_bar(bar, percent_of(bar.value), reference, html);
        }
        html.push_str("</ul>\n");
        if let Some((value, label)) = &self.reference {
            let (label, value, unit) = (prose(label), significant(*value), escape(&self.unit));
            append(
                html,
                format_args!(
                    "<p class=\"reference\"><i aria-hidden=\"true\"></i>{label}: {value} {unit}</p>\n"
                ),
            );
        }
        html.push_str(CLOSE);
    }

    fn render_bar(&self, bar: &Bar, percent: f64, reference: Option<f64>, html: &mut String) {
        append(
            html,
            format_args!("<li class=\"{}\"><span class=\"label\">{}", bar.tone.class(), prose(&bar.label)),
        );
        if !bar.detail.is_empty() {
            append(html, format_args!(" <small>{}</small>", prose(&bar.detail)));
        }
        // As tables have it: no digits that say nothing.
        let (value, unit) = (TickFormat::Number.text(bar.value), escape(&self.unit));
        // Readers of the page hear label and value; the drawing adds nothing to that.
        append(
            html,
            format_args!("</span><svg aria-hidden=\"true\"><rect width=\"{percent:.2}%\" height=\"100%\"/>"),
        );
        if let Some(x) = reference {
            append(html, format_args!("<line x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"-6\" y2=\"100%\"/>"));
        }
        append(html, format_args!("</svg><span class=\"value\">{value} <small>{unit}</small></span></li>\n"));
    }
}
