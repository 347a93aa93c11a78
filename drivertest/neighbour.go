package drivertest

// A backend in files shares them with whatever else runs in the process of a client: the kernel may
// drop locks of the whole process when any descriptor of a file is closed.
var _ = rules.Add(rule{Name: "NeighbourInTheProcess", Hook: "Files", Processes: true, Says: []string{
	theRule,
	tokensGrow,
}}, func(t *trial) {
	file := t.log()
	long := 10 * limit // what dies has to wait for nothing
	visit := func() {
		d := t.elsewhere()
		err := d.Work(t.Ctx, "log", task{Request: t.exclusive("q"), File: file, TTL: long, Times: 1})
		if err == nil {
			err = d.Close()
		}
		t.FatalIf(err != nil, "a process that comes and goes: %v", err)
	}
	visit() // makes the files
	files := t.world.Files()
	stay := make(chan error, 3)
	for range cap(stay) {
		d := t.elsewhere()
		t.Calls.Go(func() {
			stay <- d.Work(t.Ctx, "log", task{Request: t.exclusive("q"), File: file, TTL: long, Neighbours: files})
		})
	}
	for range t.size(20, 6) { // the last that ends, and the first that comes, may clean up
		visit()
	}
	t.FatalIf(len(stay) > 0, "a process in which a neighbour opens and closes files has ended")
	t.oneAtATime(file)
})
