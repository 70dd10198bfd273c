"""Figures and probes of the papers, analyses, drawn data and studies. Commands: `watchword research`."""
