//! Numbers people can trust: units, statistics, histograms, JSON, and the page style.
