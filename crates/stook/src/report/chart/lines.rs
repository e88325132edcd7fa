//! [`Lines`]: values against a measure, one line per series.

use super::super::html::{append, escape, prose};
use super::super::table::{Align, Table, Tone};
use super::scale::{Axis, Scale};

/// How many colours the style has for series.
const COLOURS: usize = 6;
/// The least distance between the names of two lines, in per cent of the height of the chart.
const NAME_DISTANCE: f64 = 6.5;

/// How many characters of a name there is room for beside the chart.
const NAME_CHARS: usize = 24;

/// A place on a chart.
#[derive(Debug, Clone, Default)]
pub struct Point {
    x: f64,
    y: f64,
    label: String,
}

impl Point {
    /// The point at `x`, `y`.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, label: String::new() }
    }

    /// A few characters beside the point. Shown where they have room: on a highlighted line, or on the
    /// only one.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }
}

/// A named line through points, in the order given.
#[derive(Debug, Clone)]
pub struct Series {
    name: String,
    points: Vec<Point>,
    tone: Tone,
}

impl Series {
    /// A plain line.
    pub fn new(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { name: name.into(), points, tone: Tone::Plain }
    }

    /// How much it is to be noticed; a muted line is dashed and grey.
    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

/// A line chart, with its numbers as a table that can be unfolded.
#[derive(Debug, Clone)]
pub struct Lines {
    caption: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

impl Lines {
    /// A chart. The caption says what is seen; points that have no place on an axis are left out of
    /// the drawing, which then says so, and stay in the table.
    pub fn new(caption: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { caption: caption.into(), x, y, series }
    }

    fn shown<'a>(&self, series: &'a Series) -> impl Iterator<Item = &'a Point> {
        series.points.iter().filter(|point| self.x.can_show(point.x) && self.y.can_show(point.y))
    }

    /// `id` is different for every chart of a page.
    pub(in super::super) fn render(&self, id: usize, html: &mut String) {
        let shown = || self.series.iter().flat_map(|series| self.shown(series));
        let x = self.x.scale(shown().map(|point| point.x));
        let y = self.y.scale(shown().map(|point| point.y));
        let (left, right) = self.margins(&y);
        append(html, format_args!("<figure class=\"lines\" style=\"--left:{left}ch;--right:{right}ch\">"));
        append(html, format_args!("<figcaption>{}", prose(&self.caption)));
        let left_out = self.series.iter().map(|series| series.points.len()).sum::<usize>() - shown().count();
        if left_out > 0 {
            append(html, format_args!(" <small>Points without a place on these axes: {left_out}.</small>"));
        }
        append(
            html,
            format_args!(
                "</figcaption>\n<p class=\"axis\">{}</p>\n<div class=\"plot\">",
                escape(&self.y.label)
            ),
        );
        append(html, format_args!("<svg role=\"img\" aria-labelledby=\"t{id} d{id}\">"));
        append(html, format_args!("<title id=\"t{id}\">{}</title>", escape(&self.caption)));
        append(html, format_args!("<desc id=\"d{id}\">{}</desc>\n", escape(&self.description())));
        self.render_axes(&x, &y, html);
        // What is to be noticed is drawn last, over the rest.
        for tone in [Tone::Muted, Tone::Plain, Tone::Highlight] {
            for (index, series) in self.series.iter().enumerate().filter(|(_, series)| series.tone == tone) {
                self.render_series(index, series, &x, &y, html);
            }
        }
        self.render_names(&x, &y, html);
        html.push_str("</svg></div>\n");
        append(html, format_args!("<p class=\"axis below\">{}</p>\n", escape(&self.x.label)));
        self.render_legend(html);
        self.render_numbers(html);
        html.push_str("</figure>\n");
    }

    /// Characters that the marks of the y axis and the names of the series need at most.
    fn margins(&self, y: &Scale) -> (usize, usize) {
        let marks = y.ticks.iter().map(|&tick| self.y.format.text(tick).chars().count());
        let names = self.series.iter().map(|series| series.name.chars().count().min(NAME_CHARS));
        (marks.max().unwrap_or(0) + 1, names.max().unwrap_or(0) + 1)
    }

    fn description(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let (y, x) = (&self.y.label, &self.x.label);
        format!("{y} against {x}, for: {}. The numbers follow as a table.", names.join(", "))
    }

    fn render_axes(&self, x: &Scale, y: &Scale, html: &mut String) {
        html.push_str("<g class=\"grid\">");
        for &tick in &y.ticks {
            let (at, text) = (100.0 - y.percent(tick), escape(&self.y.format.text(tick)));
            append(html, format_args!("<line x1=\"0\" x2=\"100%\" y1=\"{at:.2}%\" y2=\"{at:.2}%\"/>"));
            append(
                html,
                format_args!("<text class=\"y\" x=\"0\" y=\"{at:.2}%\" dx=\"-10\" dy=\"4\">{text}</text>"),
            );
        }
        // Marks that would run into one another on a phone are shown on wide screens only.
        let every = x.ticks.len().div_ceil(5);
        for (index, &tick) in x.ticks.iter().enumerate() {
            let (at, text) = (x.percent(tick), escape(&self.x.format.text(tick)));
            let class = if index.is_multiple_of(every) { "x" } else { "x wide" };
            append(
                html,
                format_args!(
                    "<line x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"100%\" y2=\"100%\" class=\"tick\"/>"
                ),
            );
            append(
                html,
                format_args!("<text class=\"{class}\" x=\"{at:.2}%\" y=\"100%\" dy=\"22\">{text}</text>"),
            );
        }
        html.push_str("</g>\n");
    }

    fn render_series(&self, index: usize, series: &Series, x: &Scale, y: &Scale, html: &mut String) {
        let place = |point: &Point| (x.percent(point.x), 100.0 - y.percent(point.y));
        append(html, format_args!("<g class=\"{}\">", self.class(index)));
        // The inner drawing is stretched to the chart; the width of the stroke is not.
        html.push_str("<svg viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\"><polyline points=\"");
        for point in self.shown(series) {
            let (x, y) = place(point);
            append(html, format_args!("{x:.3},{y:.3} "));
        }
        html.push_str("\"/></svg>");
        let labels = series.tone == Tone::Highlight || self.series.len() == 1;
        for point in self.shown(series) {
            let (left, top) = place(point);
            let (name, label) = (escape(&series.name), escape(&point.label));
            let (x, y) = (self.x.format.text(point.x), self.y.format.text(point.y));
            append(html, format_args!("<circle cx=\"{left:.2}%\" cy=\"{top:.2}%\" r=\"3.5\">"));
            append(html, format_args!("<title>{name}: {} at {}</title></circle>", escape(&y), escape(&x)));
            if labels && !point.label.is_empty() {
                let position = format!("x=\"{left:.2}%\" y=\"{top:.2}%\" dy=\"-9\"");
                append(html, format_args!("<text class=\"point\" {position}>{label}</text>"));
            }
        }
        html.push_str("</g>\n");
    }

    /// Writes the name of every line at the height of its end, moved apart where they would overlap.
    fn render_names(&self, x: &Scale, y: &Scale, html: &mut String) {
        let ends = self.series.iter().enumerate().filter_map(|(index, series)| {
            let end = self.shown(series).max_by(|a, b| a.x.total_cmp(&b.x))?;
            Some((100.0 - y.percent(end.y), x.percent(end.x), index, &series.name))
        });
        let mut ends: Vec<_> = ends.collect();
        let left = ends.iter().map(|end| end.1).fold(0.0, f64::max);
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut places: Vec<f64> = ends.iter().map(|end| end.0).collect();
        move_apart(&mut places);
        for ((_, _, index, name), top) in ends.iter().zip(places) {
            let (class, name) = (self.class(*index), escape(&shortened(name)));
            let position = format!("x=\"{left:.2}%\" y=\"{top:.2}%\" dx=\"12\" dy=\"4\"");
            append(html, format_args!("<text class=\"name {class}\" {position}>{name}</text>"));
        }
    }

    fn render_legend(&self, html: &mut String) {
        html.push_str("<ul class=\"legend\" aria-hidden=\"true\">");
        for (index, series) in self.series.iter().enumerate() {
            let (class, name) = (self.class(index), escape(&series.name));
            append(
                html,
                format_args!(
                    "<li class=\"{class}\"><svg><line x2=\"100%\" y1=\"50%\" y2=\"50%\"/></svg>{name}</li>"
                ),
            );
        }
        html.push_str("</ul>\n");
    }

    fn render_numbers(&self, html: &mut String) {
        let mut table = Table::new("").column("Series", Align::Left);
        table = table.column(&self.x.label, Align::Right).column(&self.y.label, Align::Right);
        for series in &self.series {
            for point in &series.points {
                let (x, y) = (self.x.format.text(point.x), self.y.format.text(point.y));
                table = table.row([series.name.clone(), x, y], series.tone);
            }
        }
        html.push_str("<details><summary>The numbers</summary>\n");
        table.render(html);
        html.push_str("</details>\n");
    }

    /// The class of a series: highlighted ones have the first colour, muted ones are grey.
    fn class(&self, index: usize) -> String {
        match self.series.get(index).map(|series| series.tone) {
            Some(Tone::Highlight) => "series c0".to_owned(),
            Some(Tone::Muted) => "series muted".to_owned(),
            _ => {
                let plain = |series: &&Series| series.tone == Tone::Plain;
                let before = self.series.iter().take(index).filter(plain).count();
                format!("series c{}", 1 + before % (COLOURS - 1))
            }
        }
    }
}

/// `name` as far as there is room for it beside a chart; legend and table have all of it.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS) {
        Some(_) => name.chars().take(NAME_CHARS - 1).chain(['…']).collect(),
        None => name.to_owned(),
    }
}

/// Moves ascending places down until they are apart, then up again where the last left the chart.
fn move_apart(places: &mut [f64]) {
    let mut least = f64::NEG_INFINITY;
    for place in places.iter_mut() {
        *place = place.max(least);
        least = *place + NAME_DISTANCE;
    }
    let mut most = 100.0;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - NAME_DISTANCE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lines_that_end_together_are_moved_apart() {
        let mut places = vec![10.0, 10.5, 11.0, 99.0, 99.5];
        move_apart(&mut places);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= NAME_DISTANCE - 1e-9), "{places:?}");
        assert!(places.iter().all(|place| *place <= 100.0), "{places:?}");
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        assert_eq!(shortened("µ"), "µ");
        let cut = shortened(&"µ".repeat(25));
        assert_eq!((cut.chars().count(), cut.ends_with("µ…")), (24, true));
        assert_eq!(shortened(&"µ".repeat(24)), "µ".repeat(24));
    }

    #[test]
    fn points_without_a_place_are_told_and_stay_in_the_table() {
        let points = vec![Point::new(0.0, 1.0), Point::new(1.0, f64::NAN), Point::new(2.0, 3.0)];
        let series = Series::new("depth <1>", points);
        let mut html = String::new();
        let axes = (Axis::logarithmic("x"), Axis::linear("y"));
        Lines::new("A & B", axes.0, axes.1, vec![series]).render(0, &mut html);
        assert!(html.contains("Points without a place on these axes: 2."));
        assert_eq!(html.matches("<circle").count(), 1);
        assert_eq!(html.matches("<th scope=\"row\">depth &lt;1&gt;</th>").count(), 3);
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
    }
}
