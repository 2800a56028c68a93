package shop

import "github.com/interlock-go/interlock/dispatcher/inspect"

// Sources returns what the inspector's page shows of the shop: the checkouts, and the read
// models.
func (s *Shop) Sources() []inspect.Named {
	list := []inspect.Named{{Name: "checkouts", Source: s.Sagas}}
	for _, name := range []string{"details", "summary", "history"} {
		list = append(list, inspect.Named{Name: name, Source: s.Subscription(name)})
	}
	return list
}
