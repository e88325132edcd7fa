//! What charts share: the figure around a drawing, axes, marks, and the numbers as a table.

use super::super::html::{append, escape, prose};
use super::super::table::Table;
use super::scale::{Axis, Scale};

/// How wide a character is on a phone, in per cent of the width of a chart.
const CHAR_ON_PHONE: f64 = 2.8;

/// The same on a wide screen.
const CHAR_ON_WIDE: f64 = 1.25;

/// A value that is marked across the whole chart.
#[derive(Debug, Clone)]
pub struct Marker {
    value: f64,
    label: String,
    is_vertical: bool,
    /// Whether its name is at the right end of a horizontal line; otherwise at the left end.
    is_right: bool,
}

impl Marker {
    /// A vertical line at this value of the x axis.
    pub fn x(value: f64, label: impl Into<String>) -> Self {
        Self { value, label: label.into(), is_vertical: true, is_right: false }
    }

    /// A horizontal line at this value of the y axis, named at its left end.
    pub fn y(value: f64, label: impl Into<String>) -> Self {
        Self { value, label: label.into(), is_vertical: false, is_right: false }
    }

    /// Names a horizontal line at its right end.
    #[must_use]
    pub fn named_right(mut self) -> Self {
        self.is_right = true;
        self
    }

    fn render(&self, x: &Scale, y: &Scale, html: &mut String) {
        let label = escape(&self.label);
        let (line, text) = if self.is_vertical {
            let at = x.percent(self.value);
            // Towards the side on which there is more room.
            let (class, dx) = if at > 60.0 { ("end", -6) } else { ("start", 6) };
            (
                format!("x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"0\" y2=\"100%\""),
                format!("class=\"{class}\" x=\"{at:.2}%\" y=\"0\" dx=\"{dx}\" dy=\"10\""),
            )
        } else {
            let at = 100.0 - y.percent(self.value);
            let (class, place, dx) = if self.is_right { ("end", "100%", -6) } else { ("start", "0", 6) };
            let dy = if at > 50.0 { -6 } else { 15 };
            (
                format!("x1=\"0\" x2=\"100%\" y1=\"{at:.2}%\" y2=\"{at:.2}%\""),
                format!("class=\"{class}\" x=\"{place}\" y=\"{at:.2}%\" dx=\"{dx}\" dy=\"{dy}\""),
            )
        };
        append(html, format_args!("<g class=\"marker\"><line {line}/><text {text}>{label}</text></g>\n"));
    }
}

/// The parts around the drawing of a chart.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// The identifier of the whole chart on its page; none if empty.
    pub(super) id: String,
    pub(super) caption: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) markers: Vec<Marker>,
}

/// The methods by which a chart with a [`Frame`] is built, which every such chart has.
macro_rules! frame_methods {
    () => {
        /// The identifier of the chart on its page; unique on the page.
        #[must_use]
        pub fn id(mut self, id: impl Into<String>) -> Self {
            self.frame.id = id.into();
            self
        }

        /// Marks a value across the whole chart.
        #[must_use]
        pub fn marker(mut self, marker: Marker) -> Self {
            self.frame.markers.push(marker);
            self
        }
    };
}
pub(super) use frame_methods;

impl Frame {
    pub(super) fn new(caption: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { id: String::new(), caption: caption.into(), x, y, markers: Vec::new() }
    }

    /// The axes that cover the drawing and its marks.
    pub(super) fn scales(
        &self,
        xs: impl Iterator<Item = f64>,
        ys: impl Iterator<Item = f64>,
    ) -> (Scale, Scale) {
        let marked = |vertical: bool| {
            self.shown_markers()
                .filter(move |marker| marker.is_vertical == vertical)
                .map(|marker| marker.value)
        };
        (self.x.scale(xs.chain(marked(true))), self.y.scale(ys.chain(marked(false))))
    }

    fn shown_markers(&self) -> impl Iterator<Item = &Marker> {
        self.markers.iter().filter(|marker| {
            let axis = if marker.is_vertical { &self.x } else { &self.y };
            axis.can_show(marker.value)
        })
    }

    /// Everything before the drawing: `right` characters are needed beside it, `left_out` points
    /// have no place on it. `number` is different for every chart of a page.
    pub(super) fn open(
        &self,
        number: usize,
        description: &str,
        (x, y): (&Scale, &Scale),
        right: usize,
        left_out: usize,
        html: &mut String,
    ) {
        let marks = y.ticks.iter().map(|&tick| self.y.format.text(tick).chars().count());
        let left = marks.max().unwrap_or(0) + 1;
        let note = match left_out {
            0 => String::new(),
            _ => format!(" <small>Points without a place on these axes: {left_out}.</small>"),
        };
        let figure = FigureHead {
            number,
            id: &self.id,
            class: "lines",
            style: format!("--left:{left}ch;--right:{right}ch"),
            caption: &self.caption,
            note,
            title: self.caption.clone(),
            description,
            down: &self.y.label,
        };
        figure.open(html);
        self.axes(x, y, html);
        for marker in self.shown_markers() {
            marker.render(x, y, html);
        }
    }

    fn axes(&self, x: &Scale, y: &Scale, html: &mut String) {
        html.push_str("<g class=\"grid\">");
        for &tick in &y.ticks {
            let (at, text) = (100.0 - y.percent(tick), escape(&self.y.format.text(tick)));
            append(html, format_args!("<line x1=\"0\" x2=\"100%\" y1=\"{at:.2}%\" y2=\"{at:.2}%\"/>"));
            append(
                html,
                format_args!("<text class=\"y\" x=\"0\" y=\"{at:.2}%\" dx=\"-10\" dy=\"4\">{text}</text>"),
            );
        }
        // Marks that would run into one another on a phone are shown on wide screens only, and
        // those that would do so there have no text.
        let (mut on_phone_until, mut on_wide_until) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for &tick in &x.ticks {
            let (at, text) = (x.percent(tick), self.x.format.text(tick));
            let half = |char: f64| (text.chars().count() + 1) as f64 * char / 2.0;
            let class = if at - half(CHAR_ON_PHONE) < on_phone_until { "x wide" } else { "x" };
            let is_shown = at - half(CHAR_ON_WIDE) >= on_wide_until;
            if class == "x" {
                on_phone_until = at + half(CHAR_ON_PHONE);
            }
            if is_shown {
                on_wide_until = at + half(CHAR_ON_WIDE);
            }
            let text = if is_shown { escape(&text) } else { String::new() };
            append(
                html,
                format_args!(
                    "<line x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"100%\" y2=\"100%\" class=\"tick\"/>"
                ),
            );
            if text.is_empty() {
                continue;
            }
            append(
                html,
                format_args!("<text class=\"{class}\" x=\"{at:.2}%\" y=\"100%\" dy=\"22\">{text}</text>"),
            );
        }
        html.push_str("</g>\n");
    }
}

/// The markup before a drawing.
pub(super) struct FigureHead<'a> {
    /// Different for every chart of a page.
    pub(super) number: usize,
    /// None if empty.
    pub(super) id: &'a str,
    pub(super) class: &'a str,
    pub(super) style: String,
    pub(super) caption: &'a str,
    /// HTML after the caption.
    pub(super) note: String,
    /// The caption for those who hear the page.
    pub(super) title: String,
    pub(super) description: &'a str,
    /// The name of the axis that goes down.
    pub(super) down: &'a str,
}

impl FigureHead<'_> {
    /// Everything before the drawing, which [`below`] ends.
    pub(super) fn open(&self, html: &mut String) {
        let Self { number, class, style, note, .. } = self;
        html.push_str("<figure");
        if !self.id.is_empty() {
            append(html, format_args!(" id=\"{}\"", escape(self.id)));
        }
        append(html, format_args!(" class=\"{class}\" style=\"{style}\">"));
        append(html, format_args!("<figcaption>{}{note}</figcaption>\n", prose(self.caption)));
        append(html, format_args!("<p class=\"axis\">{}</p>\n<div class=\"plot\">", escape(self.down)));
        append(html, format_args!("<svg role=\"img\" aria-labelledby=\"t{number} d{number}\">"));
        append(html, format_args!("<title id=\"t{number}\">{}</title>", escape(&self.title)));
        append(html, format_args!("<desc id=\"d{number}\">{}</desc>\n", escape(self.description)));
    }
}

/// The unit of all values, after a caption.
pub(super) fn unit_note(unit: &str) -> String {
    format!(" <span class=\"unit\">{}</span>", escape(unit))
}

/// The end of a drawing, and the axis below it; then come legend, numbers, and [`CLOSE`].
pub(super) fn below(across: &str, html: &mut String) {
    html.push_str("</svg></div>\n");
    append(html, format_args!("<p class=\"axis below\">{}</p>\n", escape(across)));
}

/// The numbers of a chart, to be unfolded.
pub(super) fn numbers(table: &Table, html: &mut String) {
    html.push_str("<details><summary>The numbers</summary>\n");
    table.render(html);
    html.push_str("</details>\n");
}

/// Ends a chart.
pub(super) const CLOSE: &str = "</figure>\n";

#[cfg(test)]
mod tests {
    use super::super::scale::TickFormat;
    use super::*;

    /// Before: the greatest, given first, hid all others on a phone, and small steps were
    /// unreadable.
    #[test]
    fn marks_in_any_order_leave_room_for_one_another() {
        let ticks = [1 << 20, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map(f64::from);
        let x = Axis::logarithmic("Block").format(TickFormat::BytesBinary).ticks(ticks);
        let frame = Frame::new("A", x, Axis::linear("y"));
        let (x, y) = frame.scales(ticks.into_iter(), std::iter::once(1.0));
        let mut html = String::new();
        frame.axes(&x, &y, &mut html);
        assert!(html.contains(">1 B</text>") && html.contains(">1 MiB</text>"), "{html}");
        assert_eq!(html.matches("class=\"tick\"").count(), 11);
        let shown = html.matches("class=\"x").count();
        assert!((4..11).contains(&shown), "{shown}: {html}");
    }

    #[test]
    fn marks_that_would_overlap_on_a_phone_are_for_wide_screens() {
        let blocks = [4, 16, 32, 128, 512].map(|kib| f64::from(kib << 10));
        let x = Axis::logarithmic("Block").format(TickFormat::BytesBinary).ticks(blocks);
        let frame = Frame::new("A", x, Axis::linear("y"));
        let (x, y) = frame.scales(blocks.into_iter(), std::iter::once(1.0));
        let mut html = String::new();
        frame.axes(&x, &y, &mut html);
        assert_eq!(html.matches("class=\"x wide\"").count(), 1);
        assert_eq!(html.matches("class=\"x\"").count(), 4);
        let (_, wide) = html.split_once("class=\"x wide\"").unwrap();
        assert!(wide.split_once("</text>").unwrap().0.ends_with(">32 KiB"), "{html}");
    }
}
