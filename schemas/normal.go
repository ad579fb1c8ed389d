package schemas

import (
	"slices"
	"time"
)

// normal brings a record to the one form that every wire format gives back:
// times in UTC and whole milliseconds, empty maps nil, empty lists not nil (so
// that JSON has [] where the schema has an array). It copies what it changes.

func (c Claim) normal() Claim {
	c.Created = normalPtr(c.Created)
	c.Attributes = normalMap(c.Attributes)
	return c
}

func (p Paper) normal() Paper {
	p.Abstract = normalList(p.Abstract)
	p.Identifiers = normalMap(p.Identifiers)
	return p
}

func (d Verdict) normal() Verdict {
	d.Evidence = normalList(slices.Clone(d.Evidence))
	for i := range d.Evidence {
		d.Evidence[i].Rationale = normalList(d.Evidence[i].Rationale)
	}
	d.Times.Created = normalPtr(d.Times.Created)
	d.Times.Received = normalTime(d.Times.Received)
	d.Times.Produced = normalTime(d.Times.Produced)
	return d
}

func normalTime(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

func normalPtr(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := normalTime(*t)
	return &u
}

func normalMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func normalList[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
