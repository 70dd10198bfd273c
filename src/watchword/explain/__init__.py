"""What a captioner looked at, as pictures: data in, picture out."""
