module kymo-bench-go

go 1.25
