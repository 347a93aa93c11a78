// Package mysqllock runs Interlock on MariaDB and MySQL.
package mysqllock
