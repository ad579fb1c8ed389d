package kafka

import (
	"strings"
	"testing"
)

func TestTopicsMustBeNamedAndApart(t *testing.T) {
	if err := DefaultTopics().Validate(); err != nil {
		t.Error(err)
	}
	err := Topics{Claims: "a", Verdicts: "a"}.Validate()
	if err == nil || !strings.Contains(err.Error(), `"a" is the topic of the claims and of the verdicts`) || !strings.Contains(err.Error(), "the dead letters has no name") {
		t.Errorf("got %v", err)
	}
	if err := (Topics{}).Validate(); err == nil || strings.Contains(err.Error(), "use two topics") {
		t.Errorf("topics without names: %v", err)
	}
}
