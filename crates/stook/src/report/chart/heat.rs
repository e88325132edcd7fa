//! [`HeatMap`]: one value for each combination of two things, as fields that are the fuller the
//! more.

use super::super::html::{append, escape};
use super::super::table::{Align, Table, Tone};
use super::super::units::significant;
use super::frame::{CLOSE, FigureHead, below, numbers, unit_note};

/// How dense the colour of the least and of the greatest value is. Text in the colour of ink is
/// read on all of it.
const FAINT: f64 = 0.06;
const FULL: f64 = 0.72;
/// How many fields explain the colours.
const SHADES: u32 = 6;
/// How many lines a field is hatched with.
const HATCHES: u32 = 7;

/// One field.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatField {
    value: Option<f64>,
    detail: String,
    doubt: Option<String>,
}

impl HeatField {
    /// A field with a value, in the unit of its [`HeatMap`].
    pub fn new(value: f64) -> Self {
        Self { value: Some(value), detail: String::new(), doubt: None }
    }

    /// A field without a value, and the reason.
    pub fn empty(reason: impl Into<String>) -> Self {
        Self { value: None, detail: reason.into(), doubt: None }
    }

    /// What else is known: shown where the field is pointed at, and in the table.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Why the value is not to be believed. Such a field is hatched instead of coloured.
    #[must_use]
    pub fn doubt(mut self, reason: impl Into<String>) -> Self {
        self.doubt = Some(reason.into());
        self
    }

    /// The text in the field.
    fn text(&self) -> String {
        match (self.value, &self.doubt) {
            (Some(value), Some(_)) => format!("{} ✗", significant(value)),
            (Some(value), None) => significant(value),
            (None, _) => "–".to_owned(),
        }
    }

    /// The value, if a colour may say how much it is.
    fn coloured(&self) -> Option<f64> {
        self.value.filter(|value| self.doubt.is_none() && value.is_finite() && *value > 0.0)
    }

    /// Everything that is known beside the value.
    fn note(&self) -> String {
        let doubt = self.doubt.as_ref().map(|reason| format!("not valid: {reason}"));
        let parts: Vec<&str> = [doubt.as_deref(), Some(self.detail.as_str())]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        parts.join("; ")
    }
}

/// A heat map, with its numbers as a table that can be unfolded.
///
/// Colour is logarithmic and one hue of growing density, so that it reads the same to everybody and
/// on every ground; each field says its value in digits as well.
#[derive(Debug, Clone)]
pub struct HeatMap {
    id: String,
    caption: String,
    unit: String,
    across: (String, Vec<String>),
    down: (String, Vec<String>),
    rows: Vec<Vec<HeatField>>,
}

impl HeatMap {
    /// A map of values in `unit`. `across` is what changes from column to column and the names of
    /// the columns, `down` the same for rows, the first at the top. A field that is missing at the
    /// end of a row stays blank; fields and rows without a name are not shown.
    pub fn new(
        caption: impl Into<String>,
        unit: impl Into<String>,
        across: (impl Into<String>, Vec<String>),
        down: (impl Into<String>, Vec<String>),
        rows: Vec<Vec<HeatField>>,
    ) -> Self {
        Self {
            id: String::new(),
            caption: caption.into(),
            unit: unit.into(),
            across: (across.0.into(), across.1),
            down: (down.0.into(), down.1),
            rows,
        }
    }

    /// The identifier of the chart on its page; unique on the page.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// All fields that have a place: row, column, names of both.
    fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        let rows = self.down.1.iter().zip(&self.rows).enumerate();
        rows.flat_map(move |(row, (down, fields))| {
            let columns = self.across.1.iter().zip(fields).enumerate();
            columns.map(move |(column, (across, field))| Shown { row, column, down, across, field })
        })
    }

    /// The least and the greatest value that have a colour.
    fn ends(&self) -> Option<(f64, f64)> {
        let values = self.shown().filter_map(|shown| shown.field.coloured());
        values.fold(None, |ends, value| match ends {
            None => Some((value, value)),
            Some((least, most)) => Some((f64::min(least, value), f64::max(most, value))),
        })
    }

    /// `number` is different for every chart of a page.
    pub(in super::super) fn render(&self, number: usize, html: &mut String) {
        let names = self.down.1.iter().map(|name| name.chars().count());
        let left = names.max().unwrap_or(0) + 1;
        let figure = FigureHead {
            number,
            id: &self.id,
            class: "lines heat",
            style: format!("--left:{left}ch;--right:0ch;--rows:{}", self.down.1.len()),
            caption: &self.caption,
            note: unit_note(&self.unit),
            title: format!("{}, {}", self.caption, self.unit),
            description: &self.description(),
            down: &self.down.0,
        };
        figure.open(html);
        let ends = self.ends();
        self.shown().for_each(|shown| self.render_field(&shown, ends, html));
        self.render_axes(html);
        below(&self.across.0, html);
        self.render_key(ends, html);
        self.render_reasons(html);
        self.render_numbers(html);
        html.push_str(CLOSE);
    }

    fn description(&self) -> String {
        let (unit, across, down) = (&self.unit, &self.across.0, &self.down.0);
        let all = format!("{unit} for every combination of {across} and {down}.");
        let fields = self.shown().filter_map(|shown| Some((shown.field.coloured()?, shown)));
        let most = fields.max_by(|a, b| a.0.total_cmp(&b.0));
        let most = most.map_or_else(String::new, |(_, shown)| {
            format!(" Most: {} at {} and {}.", shown.field.text(), shown.across, shown.down)
        });
        format!("{all}{most} The numbers follow as a table.")
    }

    /// Where the field lies: left, top, width and height in per cent.
    fn place(&self, shown: &Shown<'_>) -> [f64; 4] {
        let (width, height) =
            (100.0 / self.across.1.len().max(1) as f64, 100.0 / self.down.1.len().max(1) as f64);
        [shown.column as f64 * width, shown.row as f64 * height, width, height]
    }

    fn render_field(&self, shown: &Shown<'_>, ends: Option<(f64, f64)>, html: &mut String) {
        let [left, top, width, height] = self.place(shown);
        let place = format!("x=\"{left:.3}%\" y=\"{top:.3}%\" width=\"{width:.3}%\" height=\"{height:.3}%\"");
        let field = shown.field;
        let (class, density) = match (field.coloured(), ends) {
            (Some(value), Some(ends)) => ("field", density(value, ends)),
            _ if field.doubt.is_some() => ("field doubt", 0.0),
            _ => ("field empty", 0.0),
        };
        append(html, format_args!("<g class=\"{class}\"><title>{}</title>", escape(&self.tooltip(shown))));
        append(html, format_args!("<rect {place} fill-opacity=\"{density:.3}\"/>"));
        if field.doubt.is_some() {
            append(html, format_args!("<svg {place} viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\">"));
            for index in 0..HATCHES {
                // Each begins on one side and ends above it; those beyond 100 are cut off where the
                // field ends.
                let at = f64::from(2 * index + 1) * 100.0 / f64::from(HATCHES);
                append(html, format_args!("<line x1=\"0\" y1=\"{at:.1}\" x2=\"{at:.1}\" y2=\"0\"/>"));
            }
            html.push_str("</svg>");
        }
        let (x, y) = (left + width / 2.0, top + height / 2.0);
        append(
            html,
            format_args!("<text x=\"{x:.3}%\" y=\"{y:.3}%\" dy=\"5\">{}</text></g>\n", escape(&field.text())),
        );
    }

    /// The text that is shown of a field that is pointed at.
    fn tooltip(&self, shown: &Shown<'_>) -> String {
        let value = shown.field.value.map_or_else(
            || "not measured".to_owned(),
            |value| format!("{} {}", significant(value), self.unit),
        );
        let note = shown.field.note();
        let note = if note.is_empty() { note } else { format!("; {note}") };
        format!("{} {}, {} {}: {value}{note}", self.down.0, shown.down, self.across.0, shown.across)
    }

    fn render_axes(&self, html: &mut String) {
        html.push_str("<g class=\"grid\">");
        let middle = |index: usize, all: usize| (index as f64 + 0.5) * 100.0 / all.max(1) as f64;
        for (index, name) in self.down.1.iter().enumerate() {
            let (at, name) = (middle(index, self.down.1.len()), escape(name));
            append(
                html,
                format_args!("<text class=\"y\" x=\"0\" y=\"{at:.3}%\" dx=\"-10\" dy=\"5\">{name}</text>"),
            );
        }
        for (index, name) in self.across.1.iter().enumerate() {
            let (at, name) = (middle(index, self.across.1.len()), escape(name));
            append(html, format_args!("<text class=\"x\" x=\"{at:.3}%\" y=\"100%\" dy=\"20\">{name}</text>"));
        }
        html.push_str("</g>\n");
    }

    /// Renders the legend of the colours.
    fn render_key(&self, ends: Option<(f64, f64)>, html: &mut String) {
        let Some((least, most)) = ends else { return };
        let unit = escape(&self.unit);
        append(
            html,
            format_args!("<p class=\"key\">{} {unit} <svg aria-hidden=\"true\">", significant(least)),
        );
        let width = 100.0 / f64::from(SHADES);
        for shade in 0..SHADES {
            let density = FAINT + (FULL - FAINT) * f64::from(shade) / f64::from(SHADES - 1);
            let left = f64::from(shade) * width;
            append(
                html,
                format_args!(
                    "<rect x=\"{left:.3}%\" width=\"{width:.3}%\" height=\"100%\" fill-opacity=\"{density:.3}\"/>"
                ),
            );
        }
        append(
            html,
            format_args!("</svg> {} {unit}; each shade is the same factor more</p>\n", significant(most)),
        );
    }

    /// Why fields are blank, in words: there are no tooltips on a phone or on paper. The text for
    /// hatched fields may be long and is in the table.
    fn render_reasons(&self, html: &mut String) {
        let (across, down) = (&self.across.0, &self.down.0);
        let blank = self.shown().filter(|shown| shown.field.value.is_none());
        let mut reasons: Vec<String> = blank
            .map(|shown| {
                format!("– {down} {}, {across} {}: {}", shown.down, shown.across, shown.field.detail)
            })
            .collect();
        if self.shown().any(|shown| shown.field.doubt.is_some()) {
            reasons.push("✗ Hatched: not to be believed. The reason stands with the numbers.".to_owned());
        }
        if reasons.is_empty() {
            return;
        }
        html.push_str("<ul class=\"reasons\">");
        reasons.iter().for_each(|reason| append(html, format_args!("<li>{}</li>", escape(reason))));
        html.push_str("</ul>\n");
    }

    fn render_numbers(&self, html: &mut String) {
        let mut table = Table::new("").column(&self.down.0, Align::Left).column(&self.across.0, Align::Right);
        table = table.column(&self.unit, Align::Right).column("", Align::Left);
        for shown in self.shown() {
            let tone = if shown.field.coloured().is_some() { Tone::Plain } else { Tone::Muted };
            let (down, across) = (shown.down.clone(), shown.across.clone());
            table = table.row([down, across, shown.field.text(), shown.field.note()], tone);
        }
        numbers(&table, html);
    }
}

/// A field and its position.
struct Shown<'a> {
    row: usize,
    column: usize,
    down: &'a String,
    across: &'a String,
    field: &'a HeatField,
}

/// How dense the colour of `value` is. Equal factors are equally far apart; if there is only one
/// value, it is full.
fn density(value: f64, (least, most): (f64, f64)) -> f64 {
    let span = (most / least).ln();
    let share = if span > 0.0 { (value / least).ln() / span } else { 1.0 };
    if share.is_finite() { FAINT + (FULL - FAINT) * share.clamp(0.0, 1.0) } else { FULL }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn rendered(rows: Vec<Vec<HeatField>>) -> String {
        let (across, down) = (names(&["1", "32"]), names(&["4 KiB", "<1 MiB>"]));
        let chart = HeatMap::new("A & B", "MB/s", ("depth", across), ("block", down), rows).id("a\"b");
        let mut html = String::new();
        chart.render(7, &mut html);
        html
    }

    fn four() -> Vec<Vec<HeatField>> {
        vec![
            vec![HeatField::new(10.0).detail("2 IOPS"), HeatField::new(100.0)],
            vec![HeatField::new(1000.0), HeatField::empty("takes <more> memory")],
        ]
    }

    #[test]
    fn fields_lie_where_they_belong_and_are_the_fuller_the_more() {
        let html = rendered(four());
        let field = |place: &str, density: &str| format!("<rect {place} fill-opacity=\"{density}\"/>");
        for (x, y, density) in
            [("0.000", "0.000", "0.060"), ("50.000", "0.000", "0.390"), ("0.000", "50.000", "0.720")]
        {
            let place = format!("x=\"{x}%\" y=\"{y}%\" width=\"50.000%\" height=\"50.000%\"");
            assert!(html.contains(&field(&place, density)), "{place}: {html}");
        }
        assert!(html.contains("<figure id=\"a&quot;b\"") && html.contains("--rows:2"), "{html}");
        assert!(html.contains("<title id=\"t7\">A &amp; B, MB/s</title>"), "{html}");
        assert!(html.contains("Most: 1,000 at 1 and &lt;1 MiB&gt;."), "{html}");
        assert!(html.contains("<title>block 4 KiB, depth 1: 10.0 MB/s; 2 IOPS</title>"), "{html}");
        assert!(html.contains("10.0 MB/s <svg") && html.contains("</svg> 1,000 MB/s"), "{html}");
        assert_eq!(html.matches("<th scope=\"row\">").count(), 4);
    }

    #[test]
    fn what_was_not_measured_is_blank_and_says_why() {
        let html = rendered(four());
        assert_eq!(html.matches("class=\"field empty\"").count(), 1);
        assert!(html.contains(">–</text>"), "{html}");
        let reported = "block &lt;1 MiB&gt;, depth 32: not measured; takes &lt;more&gt; memory";
        assert!(html.contains(reported), "{html}");
        let reason = "<li>– block &lt;1 MiB&gt;, depth 32: takes &lt;more&gt; memory</li>";
        assert!(html.contains(reason), "{html}");
    }

    #[test]
    fn a_doubtful_field_is_hatched_says_why_and_changes_no_colour() {
        let mut rows = four();
        rows[1][1] = HeatField::new(1e9).detail("9 IOPS").doubt("a cache");
        let html = rendered(rows);
        assert_eq!(html.matches("class=\"field doubt\"").count(), 1);
        assert_eq!(html.matches("<line ").count(), HATCHES as usize);
        assert!(html.contains("1,000,000,000 MB/s; not valid: a cache; 9 IOPS</title>"), "{html}");
        assert!(html.contains("<li>✗ Hatched: not to be believed."), "{html}");
        assert!(html.contains("<td>not valid: a cache; 9 IOPS</td>"), "{html}");
        // The greatest that is believed is still the fullest.
        assert_eq!(html.matches("height=\"50.000%\" fill-opacity=\"0.720\"").count(), 1);
        assert!(html.contains("</svg> 1,000 MB/s; each"), "{html}");
    }

    #[test]
    fn values_without_a_logarithm_and_maps_without_values_are_drawn() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let html = rendered(vec![vec![HeatField::new(value)]]);
            assert!(html.contains("fill-opacity=\"0.000\"") && !html.contains("class=\"key\""), "{html}");
            assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        }
        assert!(rendered(vec![vec![HeatField::new(5.0)]]).contains("fill-opacity=\"0.720\""));
        let (none, rows) = (Vec::new(), vec![vec![HeatField::new(1.0)]]);
        let mut html = String::new();
        HeatMap::new("A", "B", ("x", none.clone()), ("y", none), rows).render(0, &mut html);
        assert!(!html.contains("<rect") && !html.contains("NaN"), "{html}");
    }
}
