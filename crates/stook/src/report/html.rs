//! Text made safe for HTML.

use std::fmt::Write;

/// `text` for element content and for attribute values in double quotes.
///
/// Control characters that HTML does not allow, and the marks that turn the direction of writing
/// (which could make a file name look like another), become `U+FFFD`.
pub fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(character),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => html.push('\u{fffd}'),
            _ if character.is_control() => html.push('\u{fffd}'),
            _ => html.push(character),
        }
    }
    html
}

/// [`escape`], with text between backticks set as code. A lone backtick is kept.
pub(super) fn prose(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, code, after)) = next_code(rest) {
        html.push_str(&escape(before));
        append(&mut html, format_args!("<code>{}</code>", escape(code)));
        rest = after;
    }
    html.push_str(&escape(rest));
    html
}

fn next_code(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
}

/// JSON for a `<script type="application/json">`: nothing in it can end the element.
pub(super) fn json_for_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Appends formatted text.
pub(super) fn append(html: &mut String, text: std::fmt::Arguments<'_>) {
    let written = html.write_fmt(text);
    debug_assert!(written.is_ok(), "writing into a String does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let hostile = "</title><script>alert(\"1\" & '2')</script>\u{202e}\0";
        let html = escape(hostile);
        assert!(!html.contains(['<', '>', '"', '\'', '\u{202e}', '\0']), "{html}");
        assert_eq!(prose("run `a<b` now"), "run <code>a&lt;b</code> now");
        assert_eq!(prose("one ` tick"), "one ` tick");
    }

    #[test]
    fn json_in_a_script_cannot_end_it_and_still_means_the_same() {
        let value = serde_json::json!({"</script><!--": "<\u{2028}>"});
        let text = json_for_script(&value.to_string());
        assert!(!text.contains('<'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
