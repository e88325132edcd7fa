//! What studies print as published, against a copy of the documents' tables that was made apart.

use std::collections::BTreeMap;

use stook_study::frame::Document;

const COPY: &str = include_str!("../data/published.txt");

type Tables = BTreeMap<String, Vec<Vec<String>>>;

fn copied() -> BTreeMap<&'static str, Tables> {
    let mut all: BTreeMap<&str, Tables> = BTreeMap::new();
    let (mut study, mut table) = ("", String::new());
    let (_, lines) = COPY.split_once("\n\n").unwrap();
    for line in lines.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("= ") {
            study = name;
        } else if let Some(name) = line.strip_prefix("- ") {
            name.clone_into(&mut table);
        } else {
            let cells = line.split('|').map(|cell| cell.trim().to_owned()).collect();
            all.entry(study).or_default().entry(table.clone()).or_default().push(cells);
        }
    }
    all
}

fn printed(document: &Document) -> Tables {
    let own = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
    let table = |table: &stook_study::frame::Printed| {
        let rows = std::iter::once(table.columns).chain(table.rows.iter().copied());
        (format!("{}; {}", table.section, table.caption), rows.map(own).collect())
    };
    document.tables.iter().map(table).collect()
}

/// Before: figures that were measured here stood as published.
#[test]
fn every_published_figure_stands_in_the_documents_and_none_is_missing() {
    let copied = copied();
    let documents = stook_study::documents();
    assert_eq!(
        documents.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        copied.keys().copied().collect::<Vec<_>>()
    );
    for (name, document) in documents {
        let printed = printed(document);
        let copied = copied.get(name).unwrap();
        assert_eq!(printed.keys().collect::<Vec<_>>(), copied.keys().collect::<Vec<_>>(), "{name}");
        for (table, rows) in &printed {
            assert_eq!(Some(rows), copied.get(table), "{name}: {table}");
        }
        for table in document.tables {
            assert!(
                table.rows.iter().all(|row| row.len() == table.columns.len()),
                "{name}: {}",
                table.caption
            );
        }
    }
}

#[test]
fn every_study_that_is_listed_repeats_a_document_of_its_own() {
    let mut listed = stook_study::all::STUDIES.map(|(name, _)| name);
    listed.sort_unstable();
    assert_eq!(listed, stook_study::documents().map(|(name, _)| name));
}
