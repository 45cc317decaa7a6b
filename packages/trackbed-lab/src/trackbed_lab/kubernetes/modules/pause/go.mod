module trackbed.dev/lab/pause

go 1.25.0
